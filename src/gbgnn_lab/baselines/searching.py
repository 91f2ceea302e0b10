"""SearchedModel: a network for any graph, the settings that are left open chosen by validation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar

import numpy as np
import torch
from sklearn.preprocessing import QuantileTransformer, StandardScaler

from gbgnn.problem import LabelledNodes
from gbgnn_lab.baselines.base import BaselineFit, NetworkModel
from gbgnn_lab.baselines.data import SparseMatrix, TrainingData

_MOST_QUANTILES = 1000


@dataclass(frozen=True, kw_only=True)
class SearchedModel(NetworkModel):
    """A network with a small search.

    What is None is chosen by validation, from ``searched``; without validation nodes, the first of each is
    taken. Epochs and trials are ranked by the AUC of two classes, the hits of more, the loss of numbers and
    among equals. Dense columns should go in by :func:`prepare_columns`, so that no unit and no outlier
    matters.
    """

    searched: ClassVar[Mapping[str, Sequence[Any]]]
    """What is tried of a setting that is left open: eight trials where all three are."""

    def judge(self, scores: torch.Tensor, nodes: LabelledNodes, data: TrainingData) -> tuple[float, float]:
        """Return the AUC of two classes, the hits of more, 0 of numbers; and the mean loss."""
        return data.judge_ranking(scores, nodes)

    def fit(self, data: TrainingData) -> BaselineFit:
        """Train the network with each of the settings that are left open, and keep the best."""
        left_open = {name: values for name, values in self.searched.items() if getattr(self, name) is None}
        trials = [dict(zip(left_open, values, strict=True)) for values in product(*left_open.values())]
        if data.validation is None:
            trials = trials[:1]
        fits: list[tuple[tuple[float, float], int, BaselineFit]] = []
        for trial in trials:
            fitted = replace(replace(self, **trial).fit_trial(data), chosen=trial)
            fits.append((self._rank(fitted, data), -len(fits), fitted))
        return max(fits)[-1]

    def fit_trial(self, data: TrainingData) -> BaselineFit:
        """Train the network, nothing left open."""
        return NetworkModel.fit(self, data)

    def _rank(self, fitted: BaselineFit, data: TrainingData) -> tuple[float, float]:
        """Return how good scores are for the validation nodes; the larger, the better."""
        if data.validation is None:
            return (0.0, 0.0)
        first, loss = self.judge(fitted.scores[data.validation.rows], data.validation, data)
        return first, -loss


def prepare_columns(data: TrainingData) -> torch.Tensor | SparseMatrix:
    """Return dense columns as normal quantiles of standard deviation one, gaps as the mean; others as is."""
    X: Any = data.graph.features
    if not isinstance(X, np.ndarray):
        return data.features
    n_quantiles = min(_MOST_QUANTILES, len(X))
    quantiles = QuantileTransformer(n_quantiles=n_quantiles, output_distribution="normal", random_state=0)
    normal = StandardScaler().fit_transform(quantiles.fit_transform(X))
    return torch.tensor(np.nan_to_num(normal), dtype=torch.float32, device=data.device)
