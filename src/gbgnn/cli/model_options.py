"""The options that set something of a model, made from the settings of all parts.

A setting of a part is an option without another line: its type and default are those of the field, its help
is what the part's docstring says of it. Parts of one family share the options of settings with the same name.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand
from typer.main import get_command

from gbgnn.cli.options import key_values
from gbgnn.cli.part_fields import Field, read_family, read_fine_tuner

META = "gbgnn.settings"
"""Where a command finds, in its context's ``meta``, the flat settings that were given as options."""

AGGREGATION = "Aggregation: how nodes are mixed along the graph"
LEARNER = "Learner: what is fitted each round"
RULE = "Rule: how rounds are added up"
BOOSTING = "Boosting"
FINE_TUNING = "Fine-tuning: all rounds together, after boosting"

_PANELS = {
    "aggregation": AGGREGATION,
    "propagation": AGGREGATION,
    "learner": LEARNER,
    "rule": RULE,
    "fine_tune": FINE_TUNING,
}


class _Option(NamedTuple):
    """An option; without flags it has its name."""

    name: str
    kind: Any
    panel: str
    words: str
    flags: tuple[str, ...] = ()
    metavar: str | None = None


# What no field of a part says: settings of the model itself, and the words for scikit-learn's objects.
_WRITTEN = (
    _Option(
        *("learner__estimator", str, LEARNER),
        "(sklearn) Full name of a class of sklearn, lightgbm or xgboost.",
        ("--estimator",),
    ),
    _Option(
        *("learner__estimator_params", list[str], LEARNER),
        "(sklearn) A parameter of it. May be repeated.",
        *(("--estimator-param",), "NAME=VALUE"),
    ),
    _Option("feature_norm", str, AGGREGATION, "l1 or l2 brings every feature row to length one first."),
    _Option("learning_rate", float, RULE, "Shrinkage of every round's step."),
    _Option("n_rounds", int, BOOSTING, "The most rounds to train.", ("--rounds", "-T")),
    _Option(
        *("metric", str, BOOSTING),
        "What validation nodes are judged by: accuracy, f1_macro, roc_auc, neg_log_loss, ... "
        "(scikit-learn's scorers).",
    ),
    _Option("select", str, BOOSTING, "Which round predicts: last, validation, gradient or auto."),
    _Option("class_weight", str, BOOSTING, "balanced gives every class the same say."),
    _Option(
        *("validation_fraction", float, BOOSTING),
        "Validate on this share of the training nodes, not on the data's own.",
    ),
    _Option(
        "n_iter_no_change", int, BOOSTING, "Stop after so many rounds without a better validation result."
    ),
    _Option("fine_tune", bool, FINE_TUNING, "Fine-tune the boosted model end to end."),
    _Option("device", str, BOOSTING, "auto, cpu or cuda."),
    _Option("dtype", str, BOOSTING, "float32 or float64."),
    _Option("random_state", int, BOOSTING, "Seed of training. Default: drawn, and recorded.", ("--seed",)),
    _Option("keep_learners", bool, "The run", "Keep the learners, to predict other graphs."),
)

# Flags of settings whose own name is another's flag already, or never was theirs.
_FLAGS = {
    "learner__learning_rate": "--lr",
    "aggregation__mixing": "--mixing",
    "aggregation__max_norm": "--mixing-norm",
    "fine_tune__learning_rate": "--fine-tune-lr",
    "fine_tune__memory_limit": "--memory-limit",
    "fine_tune__keep": "--keep",
} | {
    f"aggregation__{name}": f"--kta-{name.replace('_', '-')}"
    for name in ("degree", "solver", "optimizer", "learning_rate", "epochs", "rescale")
}
# The settings of these families have their bare names as flags.
_SHORT = ("learner", "rule", "propagation")
# Set by --learning-rate, whatever the rule.
_LEFT_OUT = ("rule__learning_rate",)


class ModelCommand(TyperCommand):
    """A command that takes the options of a model beside its own, and finds what was given in ``META``.

    They are made when the command is called, not when it is registered, so that other commands do not wait.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters of the command, those of the model first among the options."""
        own = super().get_params(ctx)
        n_arguments = sum(param.param_type_name == "argument" for param in own)
        return [*own[:n_arguments], *make_options(), *own[n_arguments:]]

    def invoke(self, ctx: Any) -> Any:
        """Run the command, whose function does not know the options of the model."""
        given = {option.name: ctx.params.pop(option.name) for option in make_options()}
        ctx.meta[META] = {name: value for name, value in given.items() if value not in (None, [], ())}
        return super().invoke(ctx)


def read_given(context: typer.Context) -> dict[str, Any]:
    """Return the flat settings that were given as options."""
    given: dict[str, Any] = dict(context.meta[META])
    if "learner__estimator_params" in given:
        pairs = given["learner__estimator_params"]
        given["learner__estimator_params"] = key_values(pairs, "--estimator-param")
    return given


@cache
def make_options() -> list[Any]:
    """Return the options of a model; typer makes them from a function's signature."""

    def model() -> None:
        """Stand for a command with these options alone."""

    parameters = [_make_parameter(option) for option in _describe_options()]
    model.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    model.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    app = typer.Typer(add_completion=False)
    app.command(add_help_option=False)(model)
    return list(get_command(app).params)


def _describe_options() -> Iterable[_Option]:
    for family in ("aggregation", "propagation", "learner", "rule"):
        parts = read_family(family)
        yield _Option(family, str, _PANELS[family], _list_names(family, parts))
        yield from _describe_family(family, parts)
    yield from _WRITTEN
    yield from _describe_family("fine_tune", {"": read_fine_tuner()})


def _describe_family(family: str, parts: Mapping[str, tuple[Field, ...]]) -> Iterable[_Option]:
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
        yield _Option(path, kind, _PANELS[family], words, (_flag(family, first),), metavar)


def _make_parameter(option: _Option) -> inspect.Parameter:
    kind, flags = option.kind, option.flags or (f"--{option.name.replace('_', '-')}",)
    if kind is bool:
        flags = (f"{flags[0]}/--no-{flags[0].removeprefix('--')}",)
    made = typer.Option(
        *flags,
        help=re.sub(r"\[(?=[a-z])", r"\\[", option.words),  # an interval, not rich's markup
        metavar=option.metavar or ("NAME" if kind in (str, list[str]) else None),
        rich_help_panel=option.panel,
        show_default=False,
    )
    annotation = Annotated[kind | None, made]  # type: ignore[valid-type]  # known only now
    return inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _flag(family: str, field: Field, name: str | None = None) -> str:
    name = name or field.name
    if field.is_plugin or (family not in _SHORT and f"{family}__{name}" not in _FLAGS):
        return f"--{family}-{name}".replace("_", "-")
    return _FLAGS.get(f"{family}__{name}", f"--{name.replace('_', '-')}")


def _option_type(annotation: str) -> Any:
    """Return the type of an option for a field's annotation, None where a command line cannot give one.

    Examples
    --------
    >>> _option_type("int | None"), _option_type("str | Loss"), _option_type("Sequence[str]")
    (<class 'int'>, <class 'str'>, list[str])
    """
    words = [word.strip() for word in annotation.replace("typing.", "").split("|")]
    known = {"bool": bool, "int": int, "float": float, "str": str}
    found = [known[word] for word in words if word in known]
    if "str" in words or annotation.replace("typing.", "").startswith("Literal["):
        return str
    if re.fullmatch(r"(collections\.abc\.)?(Sequence|list|tuple)\[str(, \.\.\.)?\]", words[0]):
        return list[str]
    return float if found == [int, float] else found[0] if len(found) == 1 else None


def _list_names(family: str, parts: Iterable[str]) -> str:
    *names, last = parts
    return f"{'The matrix P: ' if family == 'propagation' else ''}{', '.join(names)} or {last}."


def _shorten(meaning: str, enough: int = 40) -> str:
    """Return the first sentence, or as many as make a line."""
    told = ""
    for sentence in re.split(r"(?<=[\w)\]]\.) (?=[A-Z0-9])", meaning):
        told = f"{told} {sentence}".strip()
        if len(told) >= enough:
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
