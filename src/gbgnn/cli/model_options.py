"""The options that set something of a model, made from the settings of all parts.

A setting of a part is an option without another line: its type and default are those of the field, its help
is what the part's docstring says of it. Parts of one family share the options of settings with the same name.

The library's own parts are read from their source files, because importing them takes seconds and the help of
a command must not. Parts of other packages, found by their entry points, are imported.
"""

from __future__ import annotations

import ast
import inspect
import re
import warnings
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand
from typer.main import get_command

from gbgnn.cli.command import HELP, UsageError, key_values, make_option
from gbgnn.errors import GBGNNWarning

_META = "gbgnn.settings"  # where a context keeps the flat settings that were given as options
_SOURCE = Path(__file__).parents[1]
_TYPES: dict[str, Any] = {"bool": bool, "int": int, "float": float, "str": str, "list": list[str]}

# Flags of settings whose own name is another's flag already, or never was theirs.
_FLAGS = {
    "learner__learning_rate": "--lr",
    "learner__mixing": "--network-mixing",
    "rule__target": "--rule-target",  # --target is the column to be predicted
    "aggregation__mixing": "--mixing",
    "aggregation__max_norm": "--mixing-norm",
    "fine_tune__learning_rate": "--fine-tune-lr",
    "fine_tune__keep": "--keep",
} | {
    f"aggregation__{name}": f"--kta-{name.replace('_', '-')}"
    for name in ("degree", "solver", "optimizer", "learning_rate", "epochs", "rescale")
}
# The settings of these families have their bare names as flags.
_SHORT = ("learner", "rule", "propagation")
# Set by --learning-rate, whatever the rule.
_LEFT_OUT = ("rule__learning_rate",)


class Field(NamedTuple):
    """One setting of one part, as in the source; one without a default must be given."""

    name: str
    annotation: str
    default: str | None
    meaning: str = ""  # the entry of the docstring, as plain text
    beside: str | None = None  # the setting whose entry it shares, when it is not the first of them
    is_plugin: bool = False


Fields = tuple[Field, ...]


class ModelCommand(TyperCommand):
    """A command that takes the options of a model beside its own, which go before those of the same flag.

    They are made when the command is called, not when it is registered, so that other commands do not wait.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters of the command, those of the model before those of the data."""
        own = super().get_params(ctx)
        taken = {flag for param in own for flag in param.opts}
        made = [option for option in make_options() if taken.isdisjoint(option.opts)]
        place = [param.name for param in own].index("data_dir")
        return [*own[:place], *made, *own[place:]]


def read_flags(context: typer.Context) -> dict[str, str]:
    """Return the flag of every parameter of a command, by its name, which for a model's is the setting's."""
    return {str(param.name): param.opts[0] for param in context.command.get_params(context)}


def read_given(context: typer.Context) -> dict[str, Any]:
    """Return the flat settings that were given as options of a model."""
    given: dict[str, Any] = dict(context.meta.get(_META, {}))
    if "learner__estimator_params" in given:
        pairs = given["learner__estimator_params"]
        given["learner__estimator_params"] = key_values(pairs, "--estimator-param")
    return given


def override_by_options(context: typer.Context, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return flat settings with those given as options, which must fit the parts that are then chosen."""
    from gbgnn.settings import SettingError, override_settings

    try:
        return override_settings(settings, read_given(context), read_flags(context).__getitem__)
    except SettingError as error:
        raise UsageError(str(error)) from None


@cache
def make_options() -> list[Any]:
    """Return the options of a model; typer makes them from a function's signature."""

    def model() -> None:
        """Stand for a command with these options alone."""

    parameters = list(_describe_options())
    model.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    model.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app = typer.Typer(add_completion=False)
    app.command(add_help_option=False)(model)
    made = list(get_command(app).params)
    for option in made:  # no argument of the command's function, which does not know it
        option.expose_value, option.callback = False, _remember
    return made


def _remember(context: Any, option: Any, value: Any) -> None:
    if value not in (None, [], ()):
        context.meta.setdefault(_META, {})[option.name] = value


def _describe_options() -> Iterator[inspect.Parameter]:
    for family in ("aggregation", "propagation", "neighbourhood", "learner", "rule"):
        parts = read_family(family)
        *names, last = parts
        listed = f"{'The matrix P: ' if family == 'propagation' else ''}{', '.join(names)} or {last}."
        yield _make_parameter(family, str, family, listed, f"--{family}")
        yield from _describe_family(family, parts)
    for name, told in HELP["options"].items():
        flags, kind = told.get("flags", [f"--{name.replace('_', '-')}"]), _TYPES[told["type"]]
        yield _make_parameter(name, kind, told["panel"], told["help"], *flags, metavar=told.get("metavar"))
    yield from _describe_family("fine_tune", {"": _read_source("FineTuner")})


def _describe_family(family: str, parts: Mapping[str, Fields]) -> Iterator[inspect.Parameter]:
    """Yield one option per name of a setting, whichever parts have it."""
    names = dict.fromkeys(field.name for fields in parts.values() for field in fields)
    for name in names:
        owners = {part: field for part, fields in parts.items() for field in fields if field.name == name}
        path, first = f"{family}__{name}", next(iter(owners.values()))
        kinds = {_option_type(field.annotation) for field in owners.values()} - {None}
        if not kinds or path in _LEFT_OUT:
            continue
        kind = kinds.pop() if len(kinds) == 1 else str
        told = [
            f"({', '.join(owners)})" if family != "fine_tune" else "",
            f"See {_flag(family, first, first.beside)}." if first.beside else _shorten(first.meaning),
            "May be repeated." if kind == list[str] else "",
            _list_defaults(owners),
        ]
        metavar = "VALUE" if kind is str and "int" in first.annotation else None
        words = " ".join(part for part in told if part)
        yield _make_parameter(path, kind, family, words, _flag(family, first), metavar=metavar)


def _make_parameter(
    name: str, kind: Any, panel: str, words: str, *flags: str, metavar: str | None = None
) -> inspect.Parameter:
    if kind is bool:
        flags = (f"{flags[0]}/--no-{flags[0].removeprefix('--')}",)
    told = {
        "flags": flags,
        "panel": panel,
        "help": re.sub(r"\[(?=[a-z])", r"\\[", words),  # an interval, not rich's markup
        "metavar": metavar or ("NAME" if kind in (str, list[str]) else None),
        "show_default": False,
    }
    annotation = Annotated[kind | None, make_option(told)]  # known only now
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _flag(family: str, field: Field, name: str | None = None) -> str:
    name = name or field.name
    if field.is_plugin or (family not in _SHORT and f"{family}__{name}" not in _FLAGS):
        return f"--{family}-{name}".replace("_", "-")
    return _FLAGS.get(f"{family}__{name}", f"--{name.replace('_', '-')}")


def _option_type(annotation: str) -> Any:
    """Return the type of an option for a field's annotation, None where a command line cannot give one."""
    words = [word.strip() for word in annotation.replace("typing.", "").split("|")]
    found = [_TYPES[word] for word in words if word in ("bool", "int", "float", "str")]
    if "str" in words or annotation.replace("typing.", "").startswith("Literal["):
        return str
    if re.fullmatch(r"(collections\.abc\.)?(Sequence|list|tuple)\[str(, \.\.\.)?\]", words[0]):
        return list[str]
    return float if found == [int, float] else found[0] if len(found) == 1 else None


def _shorten(meaning: str) -> str:
    """Return the first sentence, or as many as make 40 letters."""
    told = ""
    for sentence in re.split(r"(?<=[\w)\]]\.) (?=[A-Z0-9])", meaning):
        told = f"{told} {sentence}".strip()
        if len(told) >= 40:
            break
    return told


def _list_defaults(owners: Mapping[str, Field]) -> str:
    """Return the default as words, with the parts that have another one; nothing where it is none."""
    values = {part: _literal(field.default) for part, field in owners.items()}
    known = {part: value for part, value in values.items() if value is not None}
    if not known:
        return ""
    usual = next(iter(known.values()))
    others = [f"{part} {value}" for part, value in known.items() if value != usual]
    return f"Default: {'; '.join([usual, *others])}."


def _literal(default: str | None) -> str | None:
    try:
        value = None if default is None else ast.literal_eval(default)
    except ValueError:  # a name or a calculation, which would tell a reader nothing
        return None
    if isinstance(value, bool):
        return "yes" if value else "no"
    return None if value is None else str(value)


def read_family(family: str) -> dict[str, Fields]:
    """Return the settings of every part of a family, by the part's name, those of plug-ins last."""
    found = {name: _read_source(kind) for name, kind in _registered(family).items()}
    for point in entry_points(group=f"gbgnn.{family}"):
        try:
            kind = point.load()
        except Exception as error:  # whatever another package raises, its part is the only one missing
            message = f"{family} {point.name!r} ({point.value}) cannot be loaded: {error}"
            warnings.warn(message, GBGNNWarning, stacklevel=2)
        else:
            found.setdefault(point.name, read_class(kind))
    return found


def read_class(kind: type) -> Fields:
    """Return the settings of a class, which are the arguments it is made with."""
    meanings = read_parameters(inspect.getdoc(kind) or "")
    fields = []
    for name, parameter in inspect.signature(kind).parameters.items():
        given = parameter.annotation
        annotation = given if isinstance(given, str) else inspect.formatannotation(given)
        default = None if parameter.default is parameter.empty else repr(parameter.default)
        fields.append(Field(name, annotation, default, *meanings.get(name, ("", None)), is_plugin=True))
    return tuple(fields)


def read_parameters(docstring: str) -> dict[str, tuple[str, str | None]]:
    """Return the meaning of every name in a section Parameters, and the name whose entry it shares."""
    _, _, section = docstring.partition("Parameters\n----------\n")
    section = re.split(r"\n\n\S.*\n---", section)[0]
    found: dict[str, tuple[str, str | None]] = {}
    for entry in re.split(r"\n(?=\S)", section) if section else ():
        heading, _, text = entry.partition("\n")
        names = [name.strip() for name in heading.partition(":")[0].split(",")]
        found |= {name: (_as_plain_text(text), names[0] if i else None) for i, name in enumerate(names)}
    return found


def _as_plain_text(text: str) -> str:
    """Return the text of an entry in one line, without the marks of reStructuredText."""
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r'``"?(.*?)"?``', r"\1", text)
    text = re.sub(r":math:`([^`]*)`", lambda found: re.sub(r"\\tilde|[\\{}]", "", found[1]), text)
    return re.sub(r":\w+:`~?(?:[\w.]+\.)?([^`]*)`", r"\1", text)


def _registered(family: str) -> dict[str, str]:
    """Return the names of a family in the registry, and the classes that they stand for."""
    body: list[Any] = ast.parse(_read_files()["registry.py"]).body
    table = next(line.value for line in body if ast.unparse(getattr(line, "target", line)) == "FAMILIES")
    families = {key.value: value for key, value in zip(table.keys, table.values, strict=True)}
    parts = zip(families[family].keys, families[family].values, strict=True)
    return {key.value: ast.unparse(kind).rpartition(".")[2] for key, kind in parts}


@cache
def _read_files() -> dict[str, str]:
    files = sorted(_SOURCE.rglob("*.py"))
    return {str(file.relative_to(_SOURCE)): file.read_text(encoding="utf-8") for file in files}


@cache
def _read_source(name: str) -> Fields:
    """Return the settings of a class of ours, none for one of another package."""
    heading = re.compile(rf"^class {re.escape(name)}\b", re.MULTILINE)
    text = next(filter(heading.search, _read_files().values()), "")
    node = next((n for n in ast.parse(text).body if isinstance(n, ast.ClassDef) and n.name == name), None)
    if node is None:
        return ()
    fields = {field.name: field for base in node.bases for field in _read_source(ast.unparse(base))}
    is_dataclass = any(ast.unparse(mark).startswith("dataclass") for mark in node.decorator_list)
    for line in node.body if is_dataclass else ():
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            default = None if line.value is None else ast.unparse(line.value)
            fields[line.target.id] = Field(line.target.id, ast.unparse(line.annotation), default)
    meanings = read_parameters(ast.get_docstring(node) or "")
    return tuple(Field(*f[:3], *meanings.get(f.name, ("", None))) for f in fields.values())
