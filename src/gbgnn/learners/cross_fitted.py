"""CrossFitted: a learner whose outputs at labelled nodes are those of models that never saw them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from gbgnn._checks import check_integer
from gbgnn.errors import ModelFileError, ParameterError
from gbgnn.learners.base import Head, Learner
from gbgnn.learners.estimator_bytes import as_bytes, as_tensor
from gbgnn.learners.network import MLPHead
from gbgnn.learners.sklearn import SklearnHead
from gbgnn.learners.tree_head import TreesHead
from gbgnn.learners.trees import BoostedTrees
from gbgnn.problem import NodeInputs
from gbgnn.propagation import Representation
from gbgnn.rounds import RoundContext, WeakTask

HEADS: dict[str, type[Head]] = {"mlp": MLPHead, "trees": TreesHead, "sklearn": SklearnHead}
"""What may be inside, by the names that files use."""


@dataclass(kw_only=True, eq=False, repr=False)
class CrossFitted(Learner):
    """Trains a learner several times, each time without some labelled nodes, which hear that one alone.

    A learner that has seen a node's label says it again, and what is left there to be said tells later rounds
    little about other nodes. Here the outputs of labelled nodes are as honest as those of any other:
    residuals are then worth passing on (:class:`~gbgnn.PropagatedResiduals`), and a later network learns what
    is really missing. All other nodes, and those of other graphs, get the mean of all.

    Parameters
    ----------
    inner
        The learner, one of rows: of trees, MLP or scikit-learn's.
    n_folds
        How often it is trained, >= 2; each time on all labelled nodes but one part in so many.

    Examples
    --------
    >>> CrossFitted(inner=BoostedTrees(n_trees=10))
    CrossFitted(inner=BoostedTrees(n_trees=10))
    """

    inner: Learner = field(default_factory=BoostedTrees)
    n_folds: int = 5

    hears_labels = True  # that is, which nodes are labelled

    def check(self) -> None:
        """Raise when a setting is out of range, or the learner inside is not one of rows."""
        check_integer("CrossFitted", "n_folds", self.n_folds, 2)
        if not isinstance(self.inner, Learner):
            raise ParameterError(
                f"CrossFitted.inner must be a learner, such as BoostedTrees(); got {self.inner!r}."
            )
        if self.inner.hears_labels:
            raise ParameterError(
                f"CrossFitted.inner must be a learner of rows, such as BoostedTrees(); "
                f"{type(self.inner).__name__} looks at labels of other nodes, and keeps a node's own from it."
            )
        self.inner.check()

    @property
    def uses(self) -> str:  # type: ignore[override]
        """What the learner inside looks at."""
        return self.inner.uses

    @property
    def takes_gaps(self) -> bool:  # type: ignore[override]
        """Whether the learner inside does."""
        return self.inner.takes_gaps

    @property
    def takes_offsets(self) -> bool:  # type: ignore[override]
        """Whether the learner inside does."""
        return self.inner.takes_offsets

    @property
    def watches_validation(self) -> bool:
        """Whether the learner inside does."""
        return self.inner.watches_validation

    @property
    def is_differentiable(self) -> bool:
        """No: fine-tuning would show every node its own label."""
        return False

    def fit(self, context: RoundContext) -> CrossFittedHead:
        """Train a head for every fold, without its nodes."""
        task = context.weak_task
        if len(task.rows) < 2:
            raise ParameterError("CrossFitted needs two labelled nodes or more; got 1.")
        folds = deal_out(task, self.n_folds, context.seed)
        own = [replace(context, task=leave_out(task, folds == i)) for i in range(int(folds.max()) + 1)]
        # Copies, because a model file holds no memory twice.
        return CrossFittedHead([self.inner.fit(each) for each in own], task.rows.clone(), folds)


def deal_out(task: WeakTask, n_folds: int, seed: int) -> torch.Tensor:
    """Return the fold of every labelled node, at random, the nodes of a class as evenly as can be."""
    order = np.random.default_rng(seed).permutation(len(task.rows))
    if task.loss.takes == "classes":
        order = order[np.argsort(task.targets.cpu().numpy()[order], kind="stable")]
    folds = np.empty(len(order), np.int64)
    folds[order] = np.arange(len(order)) % min(n_folds, len(order))
    return torch.from_numpy(folds).to(task.rows.device)


def leave_out(task: WeakTask, left: torch.Tensor) -> WeakTask:
    """Return the task without some labelled nodes."""
    weights = task.weights[~left]
    return replace(
        task,
        rows=task.rows[~left],
        targets=task.targets[~left],
        weights=weights / weights.sum(),
        offsets=None if task.offsets is None else task.offsets[~left],
    )


class CrossFittedHead(Head):
    """A head for every fold of the labelled nodes, which was trained without them."""

    def __init__(self, heads: Sequence[Head], rows: torch.Tensor, folds: torch.Tensor) -> None:
        super().__init__()
        self.heads = nn.ModuleList(heads)
        self.rows: torch.Tensor
        self.folds: torch.Tensor
        self.register_buffer("rows", rows)
        self.register_buffer("folds", folds)

    @property
    def _inside(self) -> list[Head]:
        return [head for head in self.heads if isinstance(head, Head)]

    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return the mean of what all say of rows, as of nodes that none was trained on."""
        return torch.stack([head(X) for head in self.heads]).mean(dim=0)

    def evaluate(self, X: Representation, inputs: NodeInputs | None = None) -> torch.Tensor:
        """Return the mean of all; for nodes that are labelled, what the one says that has not seen them."""
        outputs = torch.stack([head.evaluate(X, inputs) for head in self._inside])
        means = outputs.mean(dim=0)
        if inputs is not None and inputs.known is not None:
            means[self.rows] = outputs[self.folds, self.rows]
        return means

    def voices(self, nodes: torch.Tensor, inputs: NodeInputs) -> list[tuple[Head, torch.Tensor]]:
        """Return all, alike; for nodes that are labelled, the one that has not seen them."""
        heads = self._inside
        shares = torch.full(
            (len(nodes), len(heads)), 1 / len(heads), dtype=torch.float64, device=nodes.device
        )
        if inputs.known is not None:
            fold_of = torch.full((inputs.n_nodes,), -1, device=nodes.device)
            fold_of[self.rows] = self.folds
            own = fold_of[nodes]
            heard = (own[:, None] == torch.arange(len(heads), device=nodes.device)).double()
            shares = torch.where(own[:, None] < 0, shares, heard)
        return [(head, shares[:, i]) for i, head in enumerate(heads)]

    @property
    def importances_per_unit(self) -> bool:  # type: ignore[override]
        """As of the heads inside."""
        return self._inside[0].importances_per_unit

    def importances(self) -> NDArray[np.float64] | None:
        """Return the mean of those of all."""
        owed = [head.importances() for head in self._inside]
        known = [each for each in owed if each is not None]
        return np.mean(known, axis=0) if len(known) == len(owed) else None

    def state(self) -> dict[str, torch.Tensor]:
        """Return the state of every head, and who was left out."""
        first = self._inside[0]
        name = next((name for name, kind in HEADS.items() if type(first) is kind), None)
        if name is None:
            raise ModelFileError(f"a {type(first).__name__} inside CrossFitted cannot be saved.")
        state = {"rows": self.rows, "folds": self.folds, "kind": as_tensor(name.encode())}
        for i, head in enumerate(self._inside):
            state |= {f"heads.{i}.{key}": value for key, value in head.state().items()}
        return state

    @classmethod
    def from_state(cls, state: dict[str, torch.Tensor]) -> CrossFittedHead:
        """Build the heads again."""
        rows, folds = state["rows"], state["folds"]
        kind = HEADS.get(as_bytes(state["kind"]).decode(errors="replace"))
        n_heads = len({name.split(".")[1] for name in state if name.startswith("heads.")})
        whole = {each.dtype for each in (rows, folds)} == {torch.int64} and rows.ndim == 1
        fits = whole and rows.shape == folds.shape and n_heads > 0 and len(rows) > 0
        if kind is None or not fits or int(folds.min()) < 0 or int(folds.max()) >= n_heads:
            raise ModelFileError("its cross-fitted learners cannot be read: nodes and folds do not fit.")
        heads = []
        for i in range(n_heads):
            prefix = f"heads.{i}."
            own = {name.removeprefix(prefix): part for name, part in state.items() if name.startswith(prefix)}
            heads.append(kind.from_state(own))
        return cls(heads, rows, folds)
