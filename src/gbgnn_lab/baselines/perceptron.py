"""A perceptron whose layers may be normalised: row by row, or column by column over the rows at hand."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

from gbgnn_lab.baselines.convolutional import Dense
from gbgnn_lab.baselines.data import SparseMatrix, dropout


class NormedPerceptron(nn.Module):
    """Linear layers; what goes into one is, in this order, brought to length one, normed and dropped.

    Parameters
    ----------
    widths
        Of the input, of the hidden layers, which have a ReLU, and of the output.
    rates
        Of dropout: of the input, and of the hidden layers.
    norms
        Whether there is a batch norm: of the input, and of the hidden layers.
    unit_rows
        Whether rows have length one.
    """

    def __init__(
        self,
        widths: Sequence[int],
        rates: tuple[float, float],
        norms: tuple[bool, bool] = (False, False),
        *,
        unit_rows: bool = False,
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Dense(*pair) for pair in pairwise(widths))
        first, *rest = widths[:-1]
        of_hidden = [nn.BatchNorm1d(width) if norms[1] else nn.Identity() for width in rest]
        self.norms = nn.ModuleList([nn.BatchNorm1d(first) if norms[0] else nn.Identity(), *of_hidden])
        self.rates, self.unit_rows = (rates[0], *[rates[1]] * len(rest)), unit_rows

    def forward(self, X: torch.Tensor | SparseMatrix) -> torch.Tensor:
        """Return the outputs of the rows ``X``, which may be sparse where nothing norms them."""
        first, *rest = range(len(self.layers))
        H: torch.Tensor = self.layers[first](self.prepare(X, first))
        for layer in rest:
            H = self.layers[layer](self.prepare(H.relu(), layer))
        return H

    def prepare(self, H: torch.Tensor | SparseMatrix, layer: int) -> torch.Tensor | SparseMatrix:
        """Return what goes into a layer."""
        if self.unit_rows:
            H = functional.normalize(H, dim=1)  # type: ignore[arg-type]
        prepared: torch.Tensor | SparseMatrix = dropout(
            self.norms[layer](H), self.rates[layer] if self.training else 0.0
        )
        return prepared
