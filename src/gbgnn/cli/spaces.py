"""Search spaces in TOML files: a table ``[space]`` with keys as in a file of settings.

A value fixes a setting, a table with ``low`` and ``high`` gives it a range, a list gives it options.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gbgnn.cli import toml
from gbgnn.errors import ParameterError, suggest
from gbgnn.registry import PARAMETERS
from gbgnn.search import VARIANTS, SearchSpace, default_space, paper_space
from gbgnn.search.ranges import as_range, range_document
from gbgnn.settings import FINE_TUNE, flatten_document, nest_settings

CUSTOM = "custom"
"""The variant of a file that says everything itself."""


def build_space(
    file: Path | None,
    *,
    variant: str | None,
    is_paper: bool,
    hidden_layers: int | None,
    fine_tune: bool,
    n_train: int,
) -> SearchSpace:
    """Return the space of a variant, changed by a file; options go before what the file says.

    Parameters
    ----------
    file
        A TOML file with a table ``[space]``, or None.
    variant
        Its parts; None takes the file's, or adj.
    is_paper
        Whether to start from the paper's ranges, not from ours.
    hidden_layers, fine_tune
        As in :func:`~gbgnn.search.default_space`.
    n_train
        Number of training nodes.
    """
    document = {} if file is None else _read(file)
    chosen = document.pop("variant", None)
    chosen = variant or chosen or "adj"
    fine_tune = fine_tune or bool(document.get(FINE_TUNE))
    space = _start(chosen, is_paper, hidden_layers, fine_tune, n_train)
    changes = _changes(document, f"{file}, [space]", space)
    if hidden_layers is not None:
        changes["learner__hidden_layers"] = hidden_layers
    return space.replaced(changes)


def to_document(space: SearchSpace) -> dict[str, Any]:
    """Return the whole space as the contents of a file."""
    # A list would be one of options.
    fixed = {k: [list(v)] if isinstance(v, (list, tuple)) else v for k, v in space.base.items()}
    ranges = {name: range_document(given) for name, given in space.ranges.items()}
    return {"space": {"variant": CUSTOM, **nest_settings({**fixed, **ranges})}}


def _read(file: Path) -> dict[str, Any]:
    document = toml.read(file)
    for key in document:
        if key != "space":
            raise ParameterError(f"{file}: unknown key {key!r}.{suggest(key, ['space'])} Known: space.")
    table = document.get("space", {})
    if not isinstance(table, Mapping):
        raise ParameterError(f"{file}: space must be a table, [space]; got {table!r}.")
    return dict(table)


def _start(
    variant: str, is_paper: bool, hidden_layers: int | None, fine_tune: bool, n_train: int
) -> SearchSpace:
    if variant == CUSTOM:
        return SearchSpace()
    if variant not in VARIANTS:
        known = [*VARIANTS, CUSTOM]
        hint = suggest(variant, known) if isinstance(variant, str) else ""
        raise ParameterError(f"variant must be one of {', '.join(known)}; got {variant!r}.{hint}")
    depth = 1 if hidden_layers is None else hidden_layers
    make_space = paper_space if is_paper else default_space
    return make_space(variant, hidden_layers=depth, fine_tune=fine_tune, n_train=n_train)


def _changes(document: Mapping[str, Any], where: str, space: SearchSpace) -> dict[str, Any]:
    """Return what a table changes, its parts those of ``space`` where it does not name them."""
    named = dict(document)
    for family in PARAMETERS:
        if isinstance(named.get(family), Mapping) and family in space.base:
            named[family] = {"name": space.base[family], **named[family]}
    settings = flatten_document(named, where)
    known = space.kept(settings)
    return {
        name: as_range(f"{where}: {name.replace('__', '.')}", value, known.get(name))
        for name, value in settings.items()
    }
