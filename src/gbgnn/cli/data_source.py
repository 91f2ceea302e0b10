"""Where a run's data comes from, as it is written on the command line and in a run's record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbgnn import datasets
from gbgnn.cli.options import as_split, key_values
from gbgnn.cli.screen import counted
from gbgnn.datasets import Dataset
from gbgnn.datasets.tables import is_plain_table_folder
from gbgnn.errors import DataError, ParameterError, suggest
from gbgnn.graph import Graph, labels_checksum


@dataclass(frozen=True)
class Source:
    """A data set by name or path and how to split it; None leaves the library's choice.

    Parameters
    ----------
    dataset
        A catalogued name, a folder or a file.
    data_dir
        A folder to look in for catalogued files.
    split, split_seed
        How to split the nodes, and the seed of a drawn split.
    normalize
        Whether to scale every feature row to a sum of one.
    options
        What else the data set takes, such as the size of a synthetic graph.
    """

    dataset: str | None = None
    data_dir: str | None = None
    split: str | int | None = None
    split_seed: int | None = None
    normalize: bool | None = None
    options: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_document(cls, document: Mapping[str, Any], where: str) -> Source:
        """Read the table ``[data]`` of a file."""
        if not isinstance(document, Mapping):
            raise ParameterError(f"{where}: data must be a table, [data]; got {document!r}.")
        known = [f.name for f in fields(cls)]
        for key in document:
            if key not in known:
                raise ParameterError(
                    f"{where}: unknown key data.{key}.{suggest(key, known)} Known: {', '.join(known)}."
                )
        return cls(**document)

    def to_document(self) -> dict[str, Any]:
        """Return the table ``[data]``; a path is made absolute, so that it can be found from anywhere."""
        document = asdict(self)
        for key in ("dataset", "data_dir"):
            path = document[key]
            if path is not None and path not in datasets.names() and Path(path).expanduser().exists():
                document[key] = str(Path(path).expanduser().resolve())
        return document

    def override(self, **given: Any) -> Source:
        """Return the source with what is not None replaced; another data set takes over no options.

        Values may be as the command line has them: a path, the number of a fold as text, a list of
        ``NAME=VALUE``.
        """
        same = given.get("dataset") in (None, self.dataset)
        kept = asdict(self) if same else asdict(self) | {"split": None, "split_seed": None, "options": {}}
        options = given.pop("options", None) or {}
        kept["options"] |= options if isinstance(options, dict) else key_values(options, "--data-option")
        new = {k: str(v) if isinstance(v, Path) else v for k, v in given.items() if v is not None}
        if isinstance(new.get("split"), str):
            new["split"] = as_split(new["split"])
        return Source(**kept | new)

    def load(self) -> Dataset:
        """Return the data set."""
        keywords = {
            "data_dir": self.data_dir,
            "split": self.split,
            "seed": self.split_seed,
            "normalize_features": self.normalize,
        }
        given = {k: v for k, v in keywords.items() if v is not None} | self.options
        return datasets.load(**given) if self.dataset is None else datasets.load(self.dataset, **given)


def fingerprint(data: Dataset) -> dict[str, str]:
    """Return checksums of all that training sees: the graph, and the labels of all but the test nodes."""
    labels = labels_checksum((nodes, data.y[nodes]) for nodes in (data.train, data.val))
    return {"graph": data.graph.checksum, "labels": labels}


def describe(data: Dataset) -> str:
    """Return the size of a data set in a line, its classes those of the training nodes."""
    graph, names = data.graph, list_class_names(data)
    classes = [name_class(label, names) for label in np.unique(data.y[data.train])]
    listed = ", ".join([*classes[:12], *(["..."] if len(classes) > 12 else [])])
    return (
        f"{data.name}: {counted(graph.n_nodes, 'node')}, {counted(graph.n_edges, 'edge')}, "
        f"{counted(graph.n_features, 'feature')}, {counted(len(classes), 'class', 'classes')} ({listed})"
    )


def name_class(label: Any, class_names: Mapping[str, str] | None) -> str:
    """Return the name of a class where there is one, else the label itself.

    Examples
    --------
    >>> name_class(np.int64(1), {"0": "cat", "1": "dog"}), name_class("theory", None)
    ('dog', 'theory')
    """
    return (class_names or {}).get(str(label), str(label))


def list_class_names(data: Dataset) -> dict[str, str]:
    """Return the name of each integer class, for a run's record; empty where labels speak for themselves."""
    if data.class_names is None or data.y.dtype.kind != "i":
        return {}
    return {str(label): name for label, name in enumerate(data.class_names)}


def load_graph(source: Source) -> Graph:
    """Return the graph of a source, whose labels and split do not matter and need not be there."""
    folder = Path(source.dataset or "").expanduser()
    if source.dataset in datasets.names() or not is_plain_table_folder(folder):
        return source.load().graph
    graph = datasets.read_folder_graph(folder, **source.options)
    return graph.with_row_normalized_features() if source.normalize else graph


def own_node_ids(config: Mapping[str, Any], n_nodes: int, *, data_dir: Path | None) -> NDArray[Any]:
    """Return the user's ids of the nodes a run was fitted on; row numbers for a bare model."""
    if "data" not in config:
        return np.arange(n_nodes)
    data = Source.from_document(config["data"], "config.toml").override(data_dir=data_dir).load()
    if data.graph.checksum != config["run"]["data"]["graph"]:
        raise DataError(
            f"the graph of {data.name} changed since the fit, so the stored predictions are not about it; "
            "predict the graph as it is now with --dataset."
        )
    return data.graph.node_ids
