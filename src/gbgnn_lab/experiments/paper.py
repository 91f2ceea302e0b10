"""The numbers that Oono and Suzuki (2020) print, as data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

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
    """Accuracy in percent: mean, and sample standard deviation (None for a single run)."""

    mean: float
    std: float | None

    def __str__(self) -> str:
        return f"{self.mean:.1f}" if self.std is None else f"{self.mean:.1f} ± {self.std:.1f}"


# By variant: L = 0 to 4, then L = 1 fine-tuned; mean and standard deviation on Cora, CiteSeer and PubMed. The
# last of KTA is the cell that ran out of memory.
_PRINTED: dict[str, tuple[tuple[tuple[float, float] | None, ...], ...]] = {
    "adj": (
        ((79.4, 1.9), (70.3, 0.5), (78.8, 0.7)),
        ((79.9, 0.8), (70.5, 0.8), (79.4, 0.2)),
        ((79.9, 1.3), (68.5, 1.3), (78.9, 0.6)),
        ((77.4, 0.8), (64.4, 1.5), (78.0, 0.5)),
        ((75.6, 2.6), (60.7, 1.7), (77.9, 0.6)),
        ((80.4, 0.8), (70.8, 0.8), (79.0, 0.5)),
    ),
    "kta": (
        ((80.0, 0.8), (70.0, 1.8), (79.4, 0.1)),
        ((80.9, 0.9), (73.1, 1.1), (79.1, 0.4)),
        ((79.8, 1.3), (68.8, 1.1), (79.1, 0.4)),
        ((78.5, 0.9), (65.2, 1.5), (78.4, 0.8)),
        ((76.0, 2.5), (65.6, 1.7), (78.0, 0.7)),
        ((82.3, 1.1), (70.8, 1.0), None),
    ),
    "ii": (
        ((79.2, 1.3), (71.4, 0.3), (79.3, 0.5)),
        ((79.8, 1.3), (71.3, 0.5), (79.4, 0.3)),
        ((79.9, 0.8), (69.8, 1.1), (79.3, 0.3)),
        ((78.7, 1.7), (66.7, 1.9), (79.2, 0.6)),
        ((75.4, 2.0), (65.1, 2.5), (78.6, 0.7)),
        ((80.8, 1.3), (70.8, 0.9), (79.2, 0.8)),
    ),
    "samme_r": (
        ((81.0, 0.8), (70.4, 0.7), (78.9, 0.3)),
        ((82.2, 1.2), (71.6, 0.5), (78.8, 0.3)),
        ((80.5, 0.8), (67.4, 1.1), (78.9, 0.3)),
        ((79.6, 1.1), (64.4, 1.4), (78.8, 0.5)),
        ((78.9, 1.8), (64.6, 1.3), (78.1, 0.6)),
        ((82.1, 1.0), (71.3, 0.8), (79.4, 0.4)),
    ),
}

ACCURACY: Mapping[Cell, Mapping[str, Accuracy | None]] = {
    cell: {
        name: None if printed is None else Accuracy(*printed)
        for name, printed in zip(DATASETS, row, strict=True)
    }
    for variant, rows in _PRINTED.items()
    for cell, row in zip(
        [*(Cell(variant, layers) for layers in LAYERS), Cell(variant, fine_tune=True)], rows, strict=True
    )
}
"""The table of all variants (tbl:node_classification_on_citation_network), by cell and data set.

None is the cell that the paper leaves empty. Where the paper's comparison of models prints another number for
the same cell, this table is the one with standard deviations.
"""

CITATIONS: tuple[tuple[str, str, float, float | None, float], ...] = (
    ("sgc", "paper", 83.0, 72.5, 79.0),
    ("sgc", "DGL, PyTorch", 84.2, 70.9, 78.5),
    ("gcn", "paper", 81.5, 70.3, 79.0),
    ("gcn", "DGL, PyTorch", 81.0, 70.2, 78.0),
    ("gcn", "DGL, TensorFlow", 81.0, 70.7, 79.2),
    ("tagcn", "paper", 83.3, 71.4, 79.4),
    ("tagcn", "DGL, PyTorch", 81.2, 71.5, 79.4),
    ("tagcn", "DGL, MXNet", 82.0, 70.2, 79.8),
    ("dgi", "paper", 82.3, 71.8, 76.8),
    ("dgi", "DGL, PyTorch", 81.6, 69.4, 76.1),
    ("dgi", "DGL, TensorFlow", 81.6, 70.2, 77.2),
    ("graphsage", "DGL, PyTorch", 83.3, 71.1, 78.3),
    ("graphsage", "DGL, MXNet", 81.7, 69.9, 79.0),
    ("appnp", "paper", 85.0, 75.7, 79.7),
    ("appnp", "DGL, PyTorch", 83.7, 71.5, 79.3),
    ("appnp", "DGL, MXNet", 83.7, 71.3, 79.8),
    ("gat", "paper", 83.0, 72.5, 79.0),
    ("gat", "DGL, PyTorch", 84.0, 70.9, 78.6),
    ("gat", "DGL, TensorFlow", 84.2, 70.9, 78.5),
    ("monet", "DGL, PyTorch", 81.6, None, 76.3),
    ("monet", "DGL, MXNet", 81.4, None, 74.8),
)
"""The paper's comparison of models (tbl:model-comparison), as printed: system, source, test accuracies.

A source is the system's own paper, or an implementation in DGL.
"""


def cite_accuracy(system: str) -> dict[str, float]:
    """Return what the paper prints of a system: its own paper's numbers, else those of DGL's first."""
    printed = next((numbers for name, _, *numbers in CITATIONS if name == system), [None] * len(DATASETS))
    return {name: value for name, value in zip(DATASETS, printed, strict=True) if value is not None}
