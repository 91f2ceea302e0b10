"""PropagatedResiduals: what is left to be said of labelled nodes, passed on along the graph."""

from __future__ import annotations

from dataclasses import dataclass

import scipy.sparse as sp
import torch

from gbgnn._checks import check_integer, check_number
from gbgnn._line_search import find_step
from gbgnn.errors import ModelFileError, ParameterError
from gbgnn.learners.base import GRAPH, Head, Learner
from gbgnn.origins import LABELS_NEARBY
from gbgnn.problem import NodeInputs
from gbgnn.propagation import Propagator, Representation
from gbgnn.rounds import RoundContext, WeakTask

N_FOLDS = 10
"""The outputs of labelled nodes are computed in so many passes, in each of which some are not heard."""


@dataclass(kw_only=True, eq=False, repr=False)
class PropagatedResiduals(Learner):
    r"""The mean residual of the labelled nodes around a node, never its own.

    The residual :math:`r_j` of a labelled node is the negative gradient of the loss in its scores. The output
    of node i is their mean, weighted by walks along P that go from i to j,

    .. math:: \sum_{j \ne i} K_{ij} s_j r_j / \sum_{j \ne i} |K_{ij}| s_j, \qquad
        K = P + \alpha P^2 + \ldots + \alpha^{n-1} P^n,

    with s the sample weights, and zero where nobody is reached. P is the model's propagation, without its
    diagonal. In the first round this is label propagation; after other learners it corrects them, as the
    first half of Correct & Smooth does; what is left by learners that know their labels by heart is worth
    little, which :class:`~gbgnn.CrossFitted` mends. On another graph no residuals are known, and the output
    is zero, which a rule that votes for classes takes for the first of them: there, boost the gradient or the
    loss.

    No node hears itself, neither in training nor when it is predicted. One step reaches nobody's self. Longer
    walks come back: then labelled nodes are heard in ten passes, in each of which a tenth of them are silent,
    and these hear the others. That holds within a round: scores of others that one round has changed tell the
    next a little of a node's own label, so let one round walk far rather than many.

    Where the rule asks for a smaller loss (``target="loss"``), outputs are scaled by one number, found by a
    line search over the training nodes; else the rule's own step does that. There is nothing to draw.

    Parameters
    ----------
    n_steps
        The longest walk. 1 hears the neighbours alone.
    alpha
        How much a walk counts that is longer by a step, in (0, 1].

    Examples
    --------
    >>> from gbgnn import GBGNNClassifier, datasets
    >>> data = datasets.csbm(n_nodes=200, per_class=20)
    >>> model = GBGNNClassifier(learner=PropagatedResiduals(), propagation="random_walk", n_rounds=1)
    >>> model = model.fit(data.train, data.y[data.train], graph=data.graph)
    >>> bool(model.score(data.test, data.y[data.test]) > 0.8)
    True
    """

    n_steps: int = 10
    alpha: float = 0.9

    uses = GRAPH
    takes_gaps = True  # which are in rows that it does not look at
    takes_offsets = True
    hears_labels = True

    def check(self) -> None:
        """Raise when a setting is out of range."""
        check_integer("PropagatedResiduals", "n_steps", self.n_steps, 1)
        check_number("PropagatedResiduals", "alpha", self.alpha, 0, 1, open_low=True)

    @property
    def is_differentiable(self) -> bool:
        """No: nothing in it was trained."""
        return False

    def fit(self, context: RoundContext) -> ResidualsHead:
        """Keep the residuals, and find their scale."""
        task, weights = context.weak_task, context.weak_task.weights
        # Copies, because a model file holds no memory twice.
        parts = (task.rows.clone(), find_residuals(task).clone(), weights / weights.mean())
        head = ResidualsHead(*parts, n_steps=self.n_steps, alpha=self.alpha)
        if task.offsets is None:
            return head
        return head.scaled(find_scale(head.means(context.inputs.P)[task.rows], task))


def find_residuals(task: WeakTask) -> torch.Tensor:
    """Return what is left to be said of the labelled nodes, shape (M, n_outputs), in double precision."""
    if task.offsets is None:
        if task.is_regression:
            return task.targets.double()
        scores = torch.zeros(len(task.rows), task.n_outputs, dtype=torch.float64, device=task.rows.device)
    else:
        scores = task.offsets.double()
    return -task.loss.evaluate("gradient", scores, task.targets)


def find_scale(means: torch.Tensor, task: WeakTask) -> float:
    """Return by what the means of labelled nodes are to be multiplied before they are added to offsets."""
    assert task.offsets is not None
    offsets, step = task.offsets.double(), means.double()

    def slope(eta: torch.Tensor) -> torch.Tensor:
        gradient = task.loss.evaluate("gradient", offsets + eta * step, task.targets)
        return ((gradient * step).sum(dim=-1) * task.weights).sum()

    return float(find_step(slope, step.new_ones(())))


class ResidualsHead(Head):
    """The residuals of labelled nodes, their weights, and how far they are heard."""

    sees_rows = False
    looks_at = LABELS_NEARBY

    def __init__(
        self,
        rows: torch.Tensor,
        residuals: torch.Tensor,
        weights: torch.Tensor,
        *,
        n_steps: int,
        alpha: float,
        scale: float = 1.0,
    ) -> None:
        super().__init__()
        self.rows: torch.Tensor
        self.residuals: torch.Tensor
        self.weights: torch.Tensor
        for name, part in (("rows", rows), ("residuals", residuals), ("weights", weights)):
            self.register_buffer(name, part)
        self.n_steps, self.alpha, self.scale = n_steps, alpha, scale

    def scaled(self, scale: float) -> ResidualsHead:
        """Return the head with its outputs multiplied by a number."""
        parts = (self.rows, self.residuals, self.weights)
        return ResidualsHead(*parts, n_steps=self.n_steps, alpha=self.alpha, scale=scale * self.scale)

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Rows alone are not enough: see :meth:`evaluate`."""
        raise ParameterError("propagated residuals need the graph, not rows alone; use evaluate(X, inputs).")

    def evaluate(self, X: Representation, inputs: NodeInputs | None = None) -> torch.Tensor:
        """Return the outputs of all nodes: zero in a graph where no labelled nodes are known."""
        assert inputs is not None
        if inputs.known is None:
            return inputs.zero_scores(self.residuals.shape[1])
        return self.scale * self.means(inputs.P)

    def means(self, P: Propagator) -> torch.Tensor:
        """Return the mean residual that each node hears, of others alone, shape (N, n_outputs)."""
        walks = Walks(P, self.n_steps, self.alpha)
        means = self._hear(walks, slice(None))
        if self.n_steps == 1:
            return means
        fold = torch.arange(len(self.rows), device=means.device) % N_FOLDS
        for i in range(min(N_FOLDS, len(fold))):
            silent = self.rows[fold == i]
            means[silent] = self._hear(walks, fold != i)[silent]
        return means

    def senders(self, inputs: NodeInputs, node: int) -> torch.Tensor | None:
        """Return what the residual of each labelled node adds to the outputs of one."""
        total = inputs.zero_scores(self.residuals.shape[1])
        if inputs.known is None:
            return total
        walks = Walks(inputs.P, self.n_steps, self.alpha)
        start = inputs.zero_scores(1)
        start[node] = 1.0
        weights, sizes = (
            walks.spread(P.transpose(), start)[self.rows, 0] * self.weights.to(inputs.dtype)
            for P in (walks.signed, walks.absolute)
        )
        if self.n_steps > 1:  # as in means
            fold = torch.arange(len(self.rows), device=weights.device) % N_FOLDS
            own = fold[self.rows == node]
            is_heard = torch.ones_like(fold, dtype=torch.bool) if not len(own) else fold != own[0]
            weights, sizes = weights * is_heard, sizes * is_heard
        if sizes.sum() > 0:
            total[self.rows] = self.scale * (weights / sizes.sum())[:, None] * self.residuals.to(inputs.dtype)
        return total

    def _hear(self, walks: Walks, heard: slice | torch.Tensor) -> torch.Tensor:
        """Return the means of some of the residuals."""
        rows, residuals, weights = self.rows[heard], self.residuals[heard], self.weights[heard, None]
        P = walks.signed
        told, sizes = (
            torch.zeros(P.n_nodes, n, dtype=P.dtype, device=P.device) for n in (residuals.shape[1], 1)
        )
        told[rows], sizes[rows] = (weights * residuals).to(P.dtype), weights.to(P.dtype)
        told, sizes = walks.spread(walks.signed, told), walks.spread(walks.absolute, sizes)
        return torch.where(sizes > 0, told / sizes, 0.0)

    def state(self) -> dict[str, torch.Tensor]:
        """Return residuals and settings."""
        settings = torch.tensor([self.n_steps, self.alpha, self.scale], dtype=torch.float64)
        return dict(self.state_dict()) | {"settings": settings}

    @classmethod
    def from_state(cls, state: dict[str, torch.Tensor]) -> ResidualsHead:
        """Build the head again."""
        rows, residuals, weights = (state[name] for name in ("rows", "residuals", "weights"))
        n_steps, alpha, scale = state["settings"].tolist()
        is_whole = rows.dtype == torch.int64 and rows.ndim == 1 and n_steps >= 1 and n_steps % 1 == 0
        if not is_whole or residuals.shape[:1] != rows.shape or weights.shape != rows.shape:
            raise ModelFileError("its residuals cannot be read: they do not fit their nodes.")
        return cls(rows, residuals, weights, n_steps=int(n_steps), alpha=alpha, scale=scale)


class Walks:
    """Sums over walks of up to ``n_steps`` steps along P without its diagonal.

    ``absolute`` counts walks where ``signed`` may take away: both are the same where no entry is negative.
    """

    def __init__(self, P: Propagator, n_steps: int, alpha: float) -> None:
        matrix = P.to_scipy()
        matrix = sp.csr_array(matrix - sp.diags_array(matrix.diagonal()))
        self.n_steps, self.alpha = n_steps, alpha
        self.signed = self.absolute = Propagator(matrix, P.device, P.dtype)
        if matrix.nnz and matrix.data.min() < 0:
            self.absolute = Propagator(abs(matrix), P.device, P.dtype)

    def spread(self, P: Propagator, told: torch.Tensor) -> torch.Tensor:
        """Return (P + alpha P^2 + ...) told, by one product a step."""
        total = reached = P(told)
        for _ in range(1, self.n_steps):
            reached = self.alpha * P(reached)
            total = total + reached
        return total
