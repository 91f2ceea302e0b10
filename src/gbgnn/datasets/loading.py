"""load(): every data set, by name or by path."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from gbgnn.datasets.arrays import is_stored, load_dataset, read_npz
from gbgnn.datasets.built_in import csbm, digits, karate
from gbgnn.datasets.catalog import CATALOG
from gbgnn.datasets.dataset import Dataset
from gbgnn.datasets.planetoid import load_planetoid
from gbgnn.datasets.splits import SIZES, SplitChoice, choose_split
from gbgnn.datasets.tables import find_reader, is_graphland, is_plain_table_folder
from gbgnn.errors import DataError, DatasetNotFoundError, ParameterError, suggest
from gbgnn.graph import NodeSplit

_MAKERS: dict[str, Callable[..., Dataset]] = {"digits": digits, "karate": karate, "csbm": csbm}


def load(
    name: str | os.PathLike[str] = "digits",
    *,
    data_dir: str | os.PathLike[str] | None = None,
    split: SplitChoice = None,
    seed: int = 0,
    normalize_features: bool | None = None,
    download: bool = True,
    **options: Any,
) -> Dataset:
    """Load a data set by name, or from a file or folder of your own.

    Parameters
    ----------
    name
        One of :func:`names`; or the path of an ``.npz`` file, of a folder with an ``edges`` and a ``nodes``
        table (or GraphLand's files), or of a ``.gbgraph`` folder. A ``Path`` is never taken for a name.
    data_dir
        Folder to look in first for the files of a known data set; then come the environment variable
        ``GBGNN_DATA``, the cache, and the public sources.
    split
        ``"public"`` (what comes with the data), ``"random"`` (sizes ``per_class``, ``n_val``, ``n_test``),
        ``"stratified"`` (fractions ``train``, ``val``, ``test``), a number (one of the data's own splits,
        else one of five folds), a NodeSplit, or the column of a node table. None takes what comes with the
        data, and a stratified split where nothing does.
    seed
        Seed of everything that is drawn.
    normalize_features
        Scale feature rows to an absolute sum of one; None does so for cora, citeseer and pubmed.
    download
        Whether missing files may be fetched.
    **options
        Arguments of the generator or reader behind the name: ``load("csbm", n_nodes=500)``.

    Examples
    --------
    >>> load("karate", split="stratified", seed=1)
    Dataset('karate', n_nodes=34, n_edges=78, n_features=34, n_classes=2, train=20, val=8, test=6)
    """
    sizes = {size: options.pop(size) for size in SIZES.get(str(split), ()) if size in options}
    key = str(name).lower()
    is_known = isinstance(name, str) and key in CATALOG
    if is_known:
        make = _MAKERS.get(key, partial(load_planetoid, CATALOG[key], data_dir, download))
    else:
        make = _reader_of_path(name)
    known = list(inspect.signature(make).parameters)
    for option in options:
        if option not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise ParameterError(
                f"load({str(name)!r}) has no option {option!r}; {takes}.{suggest(option, known)}"
            )
    # Some readers choose among the splits in their files. A drawn split comes after reading, because its
    # sizes are not the reader's business.
    is_drawn = isinstance(split, NodeSplit) or split in SIZES or (split is not None and "split" not in known)
    choices = {"split": "auto" if split is None or is_drawn else split, "seed": seed}
    dataset = make(**options, **{choice: value for choice, value in choices.items() if choice in known})
    if is_drawn:
        chosen, how = choose_split(split, dataset.y, (dataset.split,), dataset.name, seed=seed, **sizes)
        dataset = dataset.with_split(chosen, how)
    if normalize_features is None:
        normalize_features = is_known and key not in _MAKERS
    if normalize_features:
        dataset = replace(dataset, graph=dataset.graph.with_row_normalized_features())
    return dataset


def _reader_of_path(name: str | os.PathLike[str]) -> Callable[..., Dataset]:
    """Return the reader of a file or folder, which takes options only."""
    path = Path(name).expanduser()
    if path.is_dir():
        if path.suffix == ".gbgraph" or is_stored(path):
            return partial(load_dataset, path)
        if is_graphland(path) or is_plain_table_folder(path):
            return find_reader(path)
    elif path.is_file() and path.suffix.lower() == ".npz":
        return partial(read_npz, path)
    if path.exists():
        raise DataError(
            f"{path} is not a data set: give an .npz file, a folder with an edges and a nodes table "
            "(.csv or .parquet), or a .gbgraph folder."
        )
    raise DatasetNotFoundError(
        f"no data set or path is named {str(name)!r}.{suggest(str(name).lower(), CATALOG)} "
        f"Known: {', '.join(CATALOG)}; or give the path of an .npz file, of a folder with an edges and a "
        "nodes table, or of a .gbgraph folder."
    )
