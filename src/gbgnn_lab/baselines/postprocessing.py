"""Labels that travel along edges: label propagation, and Correct & Smooth on top of a plain predictor."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gbgnn.propagation import NormalizedAdjacency, Propagator
from gbgnn_lab.baselines.base import BaselineFit, BaselineModel, choice, count, share
from gbgnn_lab.baselines.data import TrainingData
from gbgnn_lab.baselines.propagating import MLP, SGC

CANDIDATES = (0.1, 0.3, 0.5, 0.7, 0.9)
_BASES: dict[str, BaselineModel] = {"mlp": MLP(), "linear": SGC(depth=0)}
_MOST_SCALE = 1000.0  # beyond it, the authors' code takes an error that never arrived for what it is


def diffuse(
    S: Propagator, start: torch.Tensor, spread: float, steps: int, most: tuple[float, float] | None = None
) -> torch.Tensor:
    """Return ``H`` after so many steps ``H <- spread * S H + (1 - spread) * start``, kept within ``most``.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> swap = Propagator(sp.csr_array([[0.0, 1.0], [1.0, 0.0]]))
    >>> diffuse(swap, torch.tensor([[1.0], [0.0]]), spread=0.5, steps=1)
    tensor([[0.5000],
            [0.5000]])
    """
    H = start
    for _ in range(steps):
        H = torch.lerp(start, S(H), spread)
        if most is not None:
            H = H.clamp(*most)
    return H


@dataclass(frozen=True, kw_only=True)
class LabelPropagation(BaselineModel):
    """Labels of the training nodes, spread along the normalised adjacency; features are not used.

    Parameters
    ----------
    depth
        Steps, each one hop.
    spread
        Share that comes from the neighbours in every step (alpha in the paper).

    Examples
    --------
    >>> LabelPropagation()
    LabelPropagation(depth=50, spread=0.9)
    """

    depth: int = count(50)
    spread: float = share(0.9)

    def fit(self, data: TrainingData) -> BaselineFit:
        """Spread the labels."""
        S = Propagator(NormalizedAdjacency().build(data.graph.adjacency), data.device)
        return BaselineFit(diffuse(S, data.one_hot(), self.spread, self.depth), 0, 0)


@dataclass(frozen=True, kw_only=True)
class CorrectAndSmooth(BaselineModel):
    """A predictor without graph, its errors on training nodes spread and taken off, its labels smoothed.

    The labels that travel are those of the training nodes. Errors are scaled node by node ("autoscale").

    Parameters
    ----------
    base
        The predictor: ``"mlp"``, or ``"linear"`` for logistic regression.
    depth
        Steps of each of the two diffusions, each one hop.
    correction, smoothing
        Share that comes from the neighbours in every step of the one and the other; None lets the
        validation nodes choose.

    Examples
    --------
    >>> CorrectAndSmooth()
    CorrectAndSmooth(base='mlp', depth=50, correction=None, smoothing=None)
    """

    base: str = choice("mlp", "linear")
    depth: int = count(50)
    correction: float | None = share(None)
    smoothing: float | None = share(None)

    def fit(self, data: TrainingData) -> BaselineFit:
        """Fit the predictor, then try the shares that are left open."""
        plain = _BASES[self.base].fit(data)
        S = Propagator(NormalizedAdjacency().build(data.graph.adjacency), data.device)
        proba = plain.scores.softmax(dim=1)
        best, most_hits = proba, -1
        for correction in self._candidates(self.correction, data):
            corrected = correct(S, proba, data, correction, self.depth)
            for smoothing in self._candidates(self.smoothing, data):
                scores = smooth(S, corrected, data, smoothing, self.depth)
                hits = _n_right(scores, data)
                if hits > most_hits:
                    best, most_hits = scores, hits
        return BaselineFit(best, plain.best_epoch, plain.n_parameters)

    @staticmethod
    def _candidates(given: float | None, data: TrainingData) -> tuple[float, ...]:
        if given is not None:
            return (given,)
        return CANDIDATES if data.validation is not None else CANDIDATES[-1:]


def correct(
    S: Propagator, proba: torch.Tensor, data: TrainingData, spread: float, steps: int
) -> torch.Tensor:
    """Return the probabilities with the errors on training nodes, spread to all nodes, added.

    What arrives at a node is scaled to the mean error of the training nodes.
    """
    rows = data.train.rows
    errors = torch.zeros_like(proba)
    errors[rows] = data.one_hot()[rows] - proba[rows]
    arrived = diffuse(S, errors, spread, steps, (-1.0, 1.0))
    scale = errors.abs().sum() / len(rows) / arrived.abs().sum(dim=1, keepdim=True)
    return proba + torch.where(scale <= _MOST_SCALE, scale, 1.0) * arrived


def smooth(S: Propagator, proba: torch.Tensor, data: TrainingData, spread: float, steps: int) -> torch.Tensor:
    """Return the probabilities, those of training nodes replaced by their labels, spread along the graph."""
    start = proba.clone()
    start[data.train.rows] = data.one_hot()[data.train.rows]
    return diffuse(S, start, spread, steps, (0.0, 1.0))


def _n_right(scores: torch.Tensor, data: TrainingData) -> int:
    if data.validation is None:
        return 0
    return int((scores[data.validation.rows].argmax(dim=1) == data.validation.targets).sum())
