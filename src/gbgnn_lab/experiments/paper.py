"""The numbers that Oono and Suzuki (2020) print, from paper.toml."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from gbgnn._checks import check_choice, check_integer

DATASETS: Mapping[str, str] = {"cora": "Cora", "citeseer": "CiteSeer", "pubmed": "PubMed"}
"""The data sets of all tables, and what to call them."""
VARIANTS: Mapping[str, str] = {
    "adj": "GB-GNN-Adj",
    "kta": "GB-GNN-KTA",
    "ii": "GB-GNN-II",
    "samme_r": "GB-GNN-SAMME.R",
}
"""The variants, and what to call them."""
LAYERS = (0, 1, 2, 3, 4)
"""Numbers of hidden layers that were tried."""


def title_dataset(name: str) -> str:
    """Return what to call a data set in a table."""
    return DATASETS.get(name, name)


@dataclass(frozen=True, order=True)
class Cell:
    """A row of the paper's tables; with a data set, a cell."""

    variant: str
    hidden_layers: int = 1  # the paper's L
    fine_tune: bool = False  # after boosting

    def __post_init__(self) -> None:
        check_choice("Cell", "variant", self.variant, VARIANTS)
        check_integer("Cell", "hidden_layers", self.hidden_layers, LAYERS[0], LAYERS[-1])

    @property
    def boosted(self) -> Cell:
        """The same cell without fine-tuning."""
        return Cell(self.variant, self.hidden_layers)

    @property
    def title(self) -> str:
        """The row's name, without L."""
        return f"{VARIANTS[self.variant]}{' + FT' if self.fine_tune else ''}"

    def __str__(self) -> str:
        return self.title if self.hidden_layers == 1 else f"{self.title}, L = {self.hidden_layers}"


@dataclass(frozen=True)
class Accuracy:
    """A result, accuracies in percent: mean, and sample standard deviation (None for a single run)."""

    mean: float
    std: float | None
    digits: int = 1  # behind the point, where it is written

    def __str__(self) -> str:
        parts = [self.mean] if self.std is None else [self.mean, self.std]
        return " ± ".join(f"{part:.{self.digits}f}" for part in parts)


_PRINTED = tomllib.loads(Path(__file__).with_name("paper.toml").read_text(encoding="utf-8"))
ACCURACY: Mapping[Cell, Mapping[str, Accuracy | None]] = {
    cell: {name: Accuracy(*cited) if cited else None for name, cited in zip(DATASETS, row, strict=True)}
    for variant, rows in _PRINTED["accuracy"].items()
    for cell, row in zip(
        [*(Cell(variant, layers) for layers in LAYERS), Cell(variant, fine_tune=True)], rows, strict=True
    )
}
"""The table of all variants, by cell and data set; None is the cell that the paper leaves empty."""
CITATIONS: Mapping[str, Mapping[str, Mapping[str, float]]] = _PRINTED["citations"]
"""The comparison of models: by system and source, the test accuracies that are printed."""


def cite_accuracy(system: str) -> Mapping[str, float]:
    """Return what the paper prints of a system: its own paper's numbers, else those of DGL's first."""
    return next(iter(CITATIONS.get(system, {}).values()), {})
