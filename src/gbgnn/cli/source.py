"""Where a command's data comes from: its options, and their record in a run's config.toml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import gbgnn
from gbgnn.cli.command import UsageError, as_split, key_values
from gbgnn.errors import ParameterError, suggest

_INSIDE = "::"  # between a database and one of its tables
# What the readers of tables call the options of the commands.
_READERS_NAMES = {"target": "label", "destination": "target"}
_COLUMNS = ("target", "id", "features", "drop", "source", "destination", "weight")
_LISTS = ("features", "drop")
_OF_TABLES = ("source", "target", "weight", "id", "label", "features", "drop", "directed")
# What the keys of a record hold.
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(("dataset", "data_dir", "nodes"), ((str,), "text")),
    "split": ((str, int), "text or a number"),
    "split_seed": ((int,), "a whole number"),
    "normalize": ((bool,), "true or false"),
    "options": ((Mapping,), "a table"),
    "edges": ((list,), "a list of paths"),
}
_OF_LABELS = ("task", "setting")


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """The options by which a command is told its data; they are the same for all that train."""

    dataset: str | None = None
    data_dir: Path | None = None
    nodes: Path | None = None
    edges: list[Path] | None = None
    target: str | None = None
    id: str | None = None
    features: str | None = None
    drop: str | None = None
    source: str | None = None
    destination: str | None = None
    weight: str | None = None
    directed: bool = False
    task: str | None = None
    setting: str | None = None
    split: str | None = None
    split_seed: int | None = None
    normalize: bool | None = None
    data_option: list[str] | None = None
    calibration_fraction: float | None = None

    def apply(self, recorded: Source) -> Source:
        """Return a source with what the options say in place of what is recorded."""
        if self.dataset is not None and self.nodes is not None:
            raise UsageError("give a data set or --nodes and --edges, not both.")
        changed = recorded.override(
            self.dataset,
            self.data_dir,
            self.split,
            self.split_seed,
            self.normalize,
            self.data_option,
            nodes=self.nodes,
            edges=self.edges,
        )
        if self.calibration_fraction is not None:
            changed = replace(changed, calibration_fraction=self.calibration_fraction)
        return changed.with_options(self.reader_options())

    def reader_options(self) -> dict[str, Any]:
        """Return what the reader of the data is told: columns by name or number, the task, the setting."""
        words = {name: getattr(self, name) for name in (*_COLUMNS, *_OF_LABELS)}
        given = {name: word for name, word in words.items() if word is not None}
        values: dict[str, Any] = {
            name: list_columns(word) if name in _LISTS else as_split(word) for name, word in given.items()
        }
        values |= {"directed": True} if self.directed else {}
        return {_READERS_NAMES.get(name, name): value for name, value in values.items()}


def list_columns(words: str) -> list[str | int | None]:
    """Return columns with commas between as a list, numbers as numbers."""
    return [as_split(word.strip()) for word in words.split(",") if word.strip()]


@dataclass(frozen=True)
class Source:
    """A data set by name or path, or its tables, and how to split it; None leaves the library's choice.

    Options are what else the data set takes, such as the size of a synthetic graph or the columns of tables.
    A ``calibration_fraction`` of the validation nodes is set aside.
    """

    dataset: str | None = None
    data_dir: str | None = None
    split: str | int | None = None
    split_seed: int | None = None
    normalize: bool | None = None
    options: dict[str, Any] = field(default_factory=dict)
    nodes: str | None = None
    edges: list[str] = field(default_factory=list)
    calibration_fraction: float | None = None

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
        for key, (kinds, words) in _KINDS.items():
            value = document.get(key)
            is_bool = isinstance(value, bool) and bool not in kinds
            if value is not None and (is_bool or not isinstance(value, kinds)):
                raise ParameterError(f"{where}: data.{key} must be {words}; got {value!r}.")
        if not all(isinstance(path, str) for path in document.get("edges", ())):
            raise ParameterError(f"{where}: data.edges must be a list of paths; got {document['edges']!r}.")
        return cls(**document)

    def to_document(self) -> dict[str, Any]:
        """Return the table ``[data]``; a path is made absolute, so that it can be found from anywhere."""
        document = asdict(self)
        for key in ("dataset", "data_dir"):
            path = document[key]
            if path is not None and path not in gbgnn.datasets.names() and Path(path).expanduser().exists():
                document[key] = str(Path(path).expanduser().resolve())
        if self.nodes is None:
            del document["nodes"], document["edges"]
        else:
            document |= {"nodes": _absolute(self.nodes), "edges": [_absolute(path) for path in self.edges]}
        return document

    def override(
        self,
        dataset: str | None = None,
        data_dir: Path | None = None,
        split: str | None = None,
        split_seed: int | None = None,
        normalize: bool | None = None,
        options: list[str] | None = None,
        *,
        nodes: Path | None = None,
        edges: list[Path] | None = None,
    ) -> Source:
        """Return the source with what an option of the command says.

        Another data set has no old options, but for the columns of tables, which other tables have too.
        """
        if (nodes is None) != (not edges):
            raise UsageError(
                "a node table needs an edge table, and the other way round: --nodes and --edges."
            )
        is_other = dataset not in (None, self.dataset) or nodes is not None
        old = self
        if is_other:
            has_tables = nodes is not None or _is_table_folder(dataset)
            kept = {key: self.options[key] for key in _OF_TABLES if has_tables and key in self.options}
            old = Source(data_dir=self.data_dir, normalize=self.normalize, options=kept)
        return Source(
            None if nodes is not None else old.dataset if dataset is None else dataset,
            old.data_dir if data_dir is None else str(data_dir),
            old.split if split is None else as_split(split),
            old.split_seed if split_seed is None else split_seed,
            old.normalize if normalize is None else normalize,
            old.options | key_values(options, "--data-option"),
            old.nodes if nodes is None else str(nodes),
            [str(path) for path in edges] if edges else old.edges,
            old.calibration_fraction,
        )

    def with_options(self, given: Mapping[str, Any]) -> Source:
        """Return the source with columns, a task or a setting; they must be about data of that kind."""
        flags = {name: flag for flag, name in _READERS_NAMES.items()}
        columns = [f"--{flags.get(key, key)}" for key in given if key in _OF_TABLES and key != "directed"]
        told = self.dataset or "the embedded digits"
        if columns and self.nodes is None and not _is_table_folder(self.dataset):
            raise UsageError(
                f"{', '.join(columns)} is about columns of tables; give --nodes and --edges, or a folder "
                f"with a nodes and an edges table, not {told}."
            )
        if "setting" in given and not _is_graphland(self.dataset):
            raise UsageError(f"--setting is for a folder of GraphLand's, with features.csv; not for {told}.")
        if "task" in given and self.nodes is None and self.dataset in (None, *gbgnn.datasets.names()):
            raise UsageError(f"--task is for data of your own; {told} has its classes.")
        merged = {**asdict(self), "options": self.options | dict(given)}
        return Source(**merged)

    def load(self, *, download: bool = True) -> gbgnn.datasets.Dataset:
        """Return the data set."""
        keywords = {
            "download": download,
            "name": self.dataset,
            "data_dir": self.data_dir,
            "split": self.split,
            "seed": self.split_seed,
            "normalize_features": self.normalize,
            "nodes": self.nodes,
            "edges": self.edges or None,
        }
        given = {k: v for k, v in keywords.items() if v is not None}
        data = gbgnn.datasets.load(**given | self.reader_options())
        if self.calibration_fraction is None:
            return data
        return data.set_aside(self.calibration_fraction, self.split_seed or 0)

    def load_graph(self) -> gbgnn.Graph:
        """Return the graph alone; labels and a split need not be there."""
        if self.nodes is None and not _is_table_folder(self.dataset):
            return self.load().graph
        options = {key: value for key, value in self.reader_options().items() if key not in _OF_LABELS}
        if self.nodes is not None:
            graph = gbgnn.datasets.read_graph(self.edges, self.nodes, **options)
        else:
            graph = gbgnn.datasets.read_folder_graph(Path(self.dataset or "").expanduser(), **options)
        return graph.with_row_normalized_features() if self.normalize else graph

    def reader_options(self) -> dict[str, Any]:
        """Return the options as the reader takes them."""
        # A record cannot hold None, which is the reader's word for edges that all weigh one.
        return self.options | ({"weight": None} if self.options.get("weight") == "none" else {})


def _is_table_folder(dataset: str | None) -> bool:
    from gbgnn.datasets.tables import is_plain_table_folder

    return dataset not in (None, *gbgnn.datasets.names()) and is_plain_table_folder(
        Path(str(dataset)).expanduser()
    )


def _is_graphland(dataset: str | None) -> bool:
    from gbgnn.datasets.graphland import is_graphland

    return dataset is not None and is_graphland(Path(dataset).expanduser())


def _absolute(table: str) -> str:
    file, inside, name = table.partition(_INSIDE)
    return f"{Path(file).expanduser().resolve()}{inside}{name}"
