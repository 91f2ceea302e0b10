"""load(): every data set, by name or by path."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from gbgnn.datasets.built_in import csbm, digits, karate
from gbgnn.datasets.catalog import CATALOG
from gbgnn.datasets.dataset import Dataset
from gbgnn.datasets.graphland import is_graphland, read_graphland
from gbgnn.datasets.npz import read_npz
from gbgnn.datasets.planetoid import load_planetoid
from gbgnn.datasets.splits import SIZES, choose_split
from gbgnn.datasets.store import is_stored, load_dataset
from gbgnn.datasets.tables import is_table_folder, read_folder, read_tables
from gbgnn.errors import DataError, DatasetNotFoundError, ParameterError, suggest
from gbgnn.graph import NodeSplit

_MAKERS: dict[str, Callable[..., Dataset]] = {"digits": digits, "karate": karate, "csbm": csbm}


def load(
    name: str | os.PathLike[str] = "digits",
    *,
    data_dir: str | os.PathLike[str] | None = None,
    split: str | int | NodeSplit | None = None,
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
    known = SIZES.get(split, ()) if isinstance(split, str) else ()
    sizes = {size: options.pop(size) for size in known if size in options}
    key = str(name).lower()
    if key in CATALOG and isinstance(name, str):
        dataset = _load_known(key, data_dir, seed, download, options)
        if split is not None:
            chosen, how = choose_split(split, dataset.y, (dataset.split,), key, seed=seed, **sizes)
            dataset = dataset.with_split(chosen, how)
        normalize = key not in _MAKERS if normalize_features is None else normalize_features
    else:
        dataset = _load_path(name, split, seed, sizes, options)
        normalize = bool(normalize_features)
    if normalize:
        dataset = replace(dataset, graph=dataset.graph.with_row_normalized_features())
    return dataset


def _load_known(key: str, data_dir: Any, seed: int, download: bool, options: dict[str, Any]) -> Dataset:
    if key not in _MAKERS:
        _check_options(key, options, ())
        return load_planetoid(CATALOG[key], data_dir, download=download)
    maker = _MAKERS[key]
    known = list(inspect.signature(maker).parameters)
    _check_options(key, options, known)
    return maker(**options, **({"seed": seed} if "seed" in known else {}))


def _load_path(
    name: str | os.PathLike[str],
    split: str | int | NodeSplit | None,
    seed: int,
    sizes: dict[str, Any],
    options: dict[str, Any],
) -> Dataset:
    path = Path(name).expanduser()
    # A drawn split comes after reading, because its sizes are not the reader's business.
    is_drawn = isinstance(split, NodeSplit) or split in SIZES
    first = "auto" if split is None or is_drawn else split
    if path.is_dir() and (path.suffix == ".gbgraph" or is_stored(path)):
        _check_options(str(name), options, ())
        dataset = load_dataset(path)
        is_drawn = split is not None
    elif path.is_dir() and is_table_folder(path):
        reader = read_graphland if is_graphland(path) else read_tables
        _check_options(str(name), options, [*inspect.signature(reader).parameters][1:])
        dataset = read_folder(path, split=first, seed=seed, **options)
    elif path.is_file() and path.suffix.lower() == ".npz":
        _check_options(str(name), options, [*inspect.signature(read_npz).parameters][1:])
        dataset = read_npz(path, split=first, seed=seed, **options)
    else:
        raise _unknown(name, path)
    if not is_drawn:
        return dataset
    chosen, how = choose_split(split, dataset.y, (dataset.split,), dataset.name, seed=seed, **sizes)
    return dataset.with_split(chosen, how)


def _check_options(owner: str, options: dict[str, Any], known: Any) -> None:
    for option in options:
        if option not in known:
            takes = f"it takes {', '.join(known)}" if known else "it takes none"
            raise ParameterError(
                f"load({owner!r}) has no option {option!r}; {takes}.{suggest(option, known)}"
            )


def _unknown(name: str | os.PathLike[str], path: Path) -> DataError:
    if path.exists():
        return DataError(
            f"{path} is not a data set: give an .npz file, a folder with an edges and a nodes table "
            "(.csv or .parquet), or a .gbgraph folder."
        )
    hint = suggest(str(name).lower(), CATALOG)
    return DatasetNotFoundError(
        f"no data set or path is named {str(name)!r}.{hint} Known: {', '.join(CATALOG)}; or give the path "
        "of an .npz file, of a folder with an edges and a nodes table, or of a .gbgraph folder."
    )
