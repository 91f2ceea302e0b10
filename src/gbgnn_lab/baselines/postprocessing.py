"""Labels that travel along edges: label propagation, and Correct & Smooth on top of a plain predictor."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gbgnn.propagation import NormalizedAdjacency, Propagator
from gbgnn_lab.baselines.base import BaselineModel, Outcome
from gbgnn_lab.baselines.propagating import MLP, SGC
from gbgnn_lab.baselines.task import Task

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

    depth: int = 50
    spread: float = 0.9

    def fit(self, task: Task) -> Outcome:
        """Spread the labels."""
        S = Propagator(NormalizedAdjacency().build(task.graph.adjacency), task.device)
        return Outcome(diffuse(S, task.one_hot(), self.spread, self.depth), 0, 0)


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

    base: str = "mlp"
    depth: int = 50
    correction: float | None = None
    smoothing: float | None = None

    def fit(self, task: Task) -> Outcome:
        """Fit the predictor, then try the shares that are left open."""
        plain = _BASES[self.base].fit(task)
        S = Propagator(NormalizedAdjacency().build(task.graph.adjacency), task.device)
        proba = plain.scores.softmax(dim=1)
        best, most_hits = proba, -1
        for correction in self._candidates(self.correction, task):
            corrected = correct(S, proba, task, correction, self.depth)
            for smoothing in self._candidates(self.smoothing, task):
                scores = smooth(S, corrected, task, smoothing, self.depth)
                hits = _n_right(scores, task)
                if hits > most_hits:
                    best, most_hits = scores, hits
        return Outcome(best, plain.best_epoch, plain.n_parameters)

    @staticmethod
    def _candidates(given: float | None, task: Task) -> tuple[float, ...]:
        if given is not None:
            return (given,)
        return CANDIDATES if task.validation is not None else CANDIDATES[-1:]


def correct(S: Propagator, proba: torch.Tensor, task: Task, spread: float, steps: int) -> torch.Tensor:
    """Return the probabilities with the errors on training nodes, spread to all nodes, added.

    What arrives at a node is scaled to the mean error of the training nodes.
    """
    rows = task.train.rows
    errors = torch.zeros_like(proba)
    errors[rows] = task.one_hot()[rows] - proba[rows]
    arrived = diffuse(S, errors, spread, steps, (-1.0, 1.0))
    scale = errors.abs().sum() / len(rows) / arrived.abs().sum(dim=1, keepdim=True)
    return proba + torch.where(scale <= _MOST_SCALE, scale, 1.0) * arrived


def smooth(S: Propagator, proba: torch.Tensor, task: Task, spread: float, steps: int) -> torch.Tensor:
    """Return the probabilities, those of training nodes replaced by their labels, spread along the graph."""
    start = proba.clone()
    start[task.train.rows] = task.one_hot()[task.train.rows]
    return diffuse(S, start, spread, steps, (0.0, 1.0))


def _n_right(scores: torch.Tensor, task: Task) -> int:
    if task.validation is None:
        return 0
    return int((scores[task.validation.rows].argmax(dim=1) == task.validation.targets).sum())
