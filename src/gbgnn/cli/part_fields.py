"""The settings of all parts with their types, defaults and meanings, read without importing torch.

The library's own parts are read from their source files, because importing them takes seconds and the help of
a command must not. Parts of other packages, found by their entry points, are imported.
"""

from __future__ import annotations

import ast
import inspect
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path

from gbgnn.errors import GBGNNWarning

_SOURCE = Path(__file__).parents[1]
_REGISTRY = "gbgnn.registry"


@dataclass(frozen=True)
class Field:
    """One setting of one part.

    Parameters
    ----------
    name, annotation, default
        As in the source; a default of None is required to be given.
    meaning
        The entry of the docstring, as plain text.
    beside
        The setting whose entry it shares, when it is not the first of them.
    is_plugin
        Whether the part is another package's.
    """

    name: str
    annotation: str
    default: str | None
    meaning: str = ""
    beside: str | None = None
    is_plugin: bool = False


Fields = tuple[Field, ...]
Entry = tuple[str, str | None]
NOTHING: Entry = ("", None)


def read_family(family: str) -> dict[str, Fields]:
    """Return the settings of every part of a family, by the part's name, those of plug-ins last."""
    found = {name: _read_source(_REGISTRY, kind) for name, kind in _registered(family).items()}
    for point in entry_points(group=f"gbgnn.{family}"):
        try:
            kind = point.load()
        except Exception as error:  # whatever another package raises, its part is the only one missing
            warnings.warn(
                f"{family} {point.name!r} ({point.value}) cannot be loaded: {error}",
                GBGNNWarning,
                stacklevel=2,
            )
        else:
            found.setdefault(point.name, read_class(kind))
    return found


def read_fine_tuner() -> Fields:
    """Return the settings of fine-tuning."""
    return _read_source("gbgnn.finetuning", "FineTuner")


def read_class(kind: type) -> Fields:
    """Return the settings of a class, which are the arguments it is made with."""
    meanings = read_parameters(inspect.getdoc(kind) or "")
    fields = []
    for name, parameter in inspect.signature(kind).parameters.items():
        given = parameter.annotation
        annotation = given if isinstance(given, str) else inspect.formatannotation(given)
        default = None if parameter.default is parameter.empty else repr(parameter.default)
        fields.append(Field(name, annotation, default, *meanings.get(name, NOTHING), is_plugin=True))
    return tuple(fields)


def read_parameters(docstring: str) -> dict[str, Entry]:
    """Return the meaning of every name in a section Parameters, and the name whose entry it shares.

    Examples
    --------
    >>> read_parameters('''Part.
    ...
    ... Parameters
    ... ----------
    ... step, momentum
    ...     ``"sgd"`` takes both.
    ... ''')["momentum"]
    ('sgd takes both.', 'step')
    """
    _, _, section = docstring.partition("Parameters\n----------\n")
    section = re.split(r"\n\n\S.*\n---", section)[0]
    found: dict[str, Entry] = {}
    for entry in re.split(r"\n(?=\S)", section) if section else ():
        heading, _, text = entry.partition("\n")
        names = [name.strip() for name in heading.partition(":")[0].split(",")]
        for name in names:
            found[name] = _as_plain_text(text), None if name == names[0] else names[0]
    return found


def _as_plain_text(text: str) -> str:
    """Return the text of an entry in one line, without the marks of reStructuredText."""
    text = re.sub(r"\s+", " ", text).strip()
    text = re.sub(r'``"?(.*?)"?``', r"\1", text)
    text = re.sub(r":math:`([^`]*)`", lambda found: re.sub(r"\\tilde|[\\{}]", "", found[1]), text)
    return re.sub(r":\w+:`~?(?:[\w.]+\.)?([^`]*)`", r"\1", text)


@cache
def _read_tree(module: str) -> ast.Module:
    path = _SOURCE.joinpath(*module.split(".")[1:])
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text(encoding="utf-8"))


def _registered(family: str) -> dict[str, str]:
    """Return the names of a family in the registry, and the classes that they stand for."""
    for node in _read_tree(_REGISTRY).body:
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "FAMILIES":
            assert isinstance(node.value, ast.Dict)
            for key, names in zip(node.value.keys, node.value.values, strict=True):
                if key is not None and ast.literal_eval(key) == family:
                    assert isinstance(names, ast.Dict)
                    pairs = zip(names.keys, names.values, strict=True)
                    return {ast.literal_eval(k): ast.unparse(v) for k, v in pairs if k is not None}
    raise AssertionError(f"the registry has no family {family}")


def _find_class(module: str, name: str) -> tuple[str, ast.ClassDef] | None:
    """Return where a class of ours is defined, following imports; None for a class of another package."""
    for node in _read_tree(module).body:
        if isinstance(node, ast.ClassDef) and node.name == name:
            return module, node
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gbgnn."):
            for alias in node.names:
                if (alias.asname or alias.name) == name:
                    return _find_class(str(node.module), alias.name)
    return None


def _read_source(module: str, name: str) -> Fields:
    found = _find_class(module, name)
    if found is None:
        return ()
    home, node = found
    inherited = [field for base in node.bases for field in _read_source(home, ast.unparse(base))]
    meanings = read_parameters(ast.get_docstring(node) or "")
    fields = {field.name: field for field in (*inherited, *_own_fields(node))}
    return tuple(
        Field(f.name, f.annotation, f.default, *meanings.get(f.name, NOTHING)) for f in fields.values()
    )


def _own_fields(node: ast.ClassDef) -> Iterator[Field]:
    if not any(ast.unparse(mark).startswith("dataclass") for mark in node.decorator_list):
        return
    for line in node.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name):
            default = None if line.value is None else ast.unparse(line.value)
            yield Field(line.target.id, ast.unparse(line.annotation), default)
