"""Learner (a family of b) and Head (one fitted b)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from torch import nn

from gbgnn._threads import map_threads, one_thread
from gbgnn.problem import NodeInputs
from gbgnn.propagation import Mixable, Representation
from gbgnn.propagation.rows import BLOCK_BYTES
from gbgnn.rounds import RoundContext

LABELLED, ALL_ROWS, GRAPH = USES = ("labelled", "all rows", "graph")
"""What a learner may look at: labelled rows, those of all nodes, or the graph too."""

BLOCK_BYTES_ON_CPU = 4 * 2**20
"""Heads are applied to all nodes in row blocks of this size, which several threads may share."""


class Head(nn.Module, ABC):
    """One fitted transformation: rows of a representation in, ``n_outputs`` columns out.

    For a classification task the columns are logits: their softmax is the learner's belief.
    """

    @abstractmethod
    def forward(self, X: torch.Tensor) -> torch.Tensor:
        """Return the outputs of the rows ``X``."""

    @abstractmethod
    def state(self) -> dict[str, torch.Tensor]:
        """Return the tensors that define this head, for the model file."""

    @classmethod
    @abstractmethod
    def from_state(cls, state: dict[str, torch.Tensor]) -> Head:
        """Build the head again from :meth:`state`."""

    def report(self) -> dict[str, Any] | None:
        """Return what the learner has to say of its training, JSON-ready, for the history, or None."""
        return None

    chosen: dict[str, Any] | None = None
    """Where validation nodes chose it from several: which learner's it is, and the loss of each."""

    @property
    def first_layer(self) -> tuple[str, str] | None:
        """Names of the weight, shape (out, in), and the bias of a linear layer that rows meet first, or None.

        Fine-tuning moves these two as a function of standardised rows.
        """
        return None

    @property
    def hidden_layers(self) -> tuple[tuple[str, str], ...]:
        """Names of weight and bias of the layers before the last, each followed by a ReLU; none by default.

        Learned hops pass on what comes out of them.
        """
        return ()

    def importances(self) -> NDArray[np.float64] | None:
        """Return how much outputs owe to each input column, zero or more in any unit; None where unknown."""
        return None

    importances_per_unit: ClassVar[bool] = False
    """Whether these are of a change by one, so that a column counts as much more as it varies more."""

    passes_gradient: ClassVar[bool] = False
    """Whether ``forward`` is differentiable in the rows."""

    def split(self) -> Split | None:
        """Return the linear layer that rows meet first, and what follows; None where there is none."""
        return None

    def relu_layers(self) -> list[tuple[torch.Tensor, torch.Tensor]] | None:
        """Return weights, (out, in), and biases of linear layers with ReLU between; None of other heads."""
        return None

    def shapley(self, rows: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return exact Shapley values, shape (rows, columns, outputs), and what they add up from, (outputs,).

        None where there is no way to compute them.
        """
        return None

    def unfold(self, inputs: NodeInputs) -> Unfolded | None:
        """Return a head that sees the graph as one of rows that are sums over walks; None of other heads."""
        return None

    enters_graph: ClassVar[bool] = False
    """Whether a head begins with a linear layer of the columns of all nodes: see :meth:`enter_graph`."""

    def enter_graph(self, inputs: NodeInputs, node: int) -> Entered:
        """Return how a head along the graph begins, and what follows, for one node."""
        raise NotImplementedError

    def senders(self, inputs: NodeInputs, node: int) -> torch.Tensor | None:
        """Return what each node adds to the outputs of one, (N, outputs), where outputs are such a sum."""
        return None

    def voices(self, nodes: torch.Tensor, inputs: NodeInputs) -> list[tuple[Head, torch.Tensor]]:
        """Return heads, and by what their outputs at nodes are to be multiplied to have those of this one."""
        return [(self, torch.ones(len(nodes), dtype=torch.float64, device=nodes.device))]

    looks_at: ClassVar[str] = "graph"
    """What a head sees that does not see rows, in a word or two."""

    sees_rows: ClassVar[bool] = True
    """Whether outputs are those of rows; if not, ``evaluate`` looks at the graph instead."""

    takes_sparse: ClassVar[bool] = False
    """Whether ``forward`` works on torch's sparse CSR rows as well."""

    runs_in_threads: ClassVar[bool] = False
    """Whether several threads may call ``forward`` at once, as long as they compute."""

    def evaluate(self, X: Representation, inputs: NodeInputs | None = None) -> torch.Tensor:
        """Return the outputs of all nodes, computed without a gradient: of their rows, block by block.

        ``inputs`` are those of the graph, for heads that look at more than rows.
        """
        on_cpu = X.device.type == "cpu"
        blocks = X.blocks(BLOCK_BYTES_ON_CPU if on_cpu else BLOCK_BYTES, sparse=self.takes_sparse)
        if not on_cpu or not self.runs_in_threads:
            return torch.cat([self._output(block) for block in blocks])
        with one_thread():
            return torch.cat(map_threads(self._output, list(blocks), work=16 * X.shape[0] * X.shape[1]))

    def output_blocks(self, X: Representation, inputs: NodeInputs) -> Iterator[torch.Tensor]:
        """Yield the outputs of all nodes in order; a few rows of a large representation at a time."""
        if isinstance(X, Mixable) and self.sees_rows:
            n_bytes = BLOCK_BYTES_ON_CPU if X.device.type == "cpu" else BLOCK_BYTES
            yield from (self._output(block) for block in X.blocks(n_bytes))
        else:
            yield self.evaluate(X, inputs)

    def _output(self, block: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():  # which a thread does not inherit
            output: torch.Tensor = self(block)
        return output


class Split(NamedTuple):
    """A linear layer, weight (out, in) and bias, and a differentiable function of what comes out of it."""

    weight: torch.Tensor
    bias: torch.Tensor
    rest: Callable[[torch.Tensor], torch.Tensor]


class Entered(NamedTuple):
    """A head along the graph: a linear layer of all nodes, and a differentiable function of its outputs.

    ``end`` is what comes out of the layer, (N, units), and ``start`` what would of average nodes without
    labels. ``split`` makes of integrals of gradients, of the same shape, what each column adds: those that a
    node has of its own, the number of its neighbours and, where the head hears them, labels.
    """

    start: torch.Tensor
    end: torch.Tensor
    rest: Callable[[torch.Tensor], torch.Tensor]
    split: Callable[[torch.Tensor], torch.Tensor]


class Unfolded(NamedTuple):
    """Outputs as those of a ``head`` of rows, sums of ``features`` less ``shift`` along walks.

    ``walks`` are the coefficients of walks of 0, 1, ... steps along P.
    """

    head: Head
    features: Representation
    shift: torch.Tensor
    walks: NDArray[np.float64]


class Heads(ABC):
    """The heads of several members, trained in one round."""

    @abstractmethod
    def evaluate(self, X: Representation, inputs: NodeInputs | None = None) -> torch.Tensor:
        """Return the outputs of all nodes, shape (members, N, n_outputs)."""

    @abstractmethod
    def head(self, i: int) -> Head:
        """Return the head of one member."""

    def report(self, i: int) -> dict[str, Any] | None:
        """Return what the learner of one member has to say of its training, or None."""
        head = self.head(i)
        said = head.report()
        return said if head.chosen is None else {**(said or {}), "chosen": head.chosen}


@dataclass(frozen=True, eq=False)
class ListedHeads(Heads):
    """Heads that were trained one after another."""

    heads: Sequence[Head]

    def evaluate(self, X: Representation, inputs: NodeInputs | None = None) -> torch.Tensor:
        """Return the outputs, one head after another."""
        return torch.stack([head.evaluate(X.member(i), inputs) for i, head in enumerate(self.heads)])

    def head(self, i: int) -> Head:
        """Return one of them."""
        return self.heads[i]


@dataclass(frozen=True)
class HeadSpace:
    """All networks that a learner could have trained, whatever the labels; what a bound must cover.

    ``n_layers``, the theory's L, counts weight matrices, so one more than hidden layers. Between them is an
    activation that changes no faster than its input and is zero at zero. ``max_norm``, the theory's B, is the
    most that the absolute values in a column of a weight matrix sum to. With a ``bias`` the input has a
    constant column 1 beside the representation; no other layer has one. A network ``is_homogeneous`` where
    its activation is, as ReLU: a times the input is activated to a times the output, for a > 0.
    """

    n_layers: int
    max_norm: float
    bias: bool = False
    is_homogeneous: bool = True


class Learner(BaseEstimator, ABC):
    """How one round's transformation is trained.

    ``check`` is called once before a fit and raises :class:`~gbgnn.errors.ParameterError` on a setting
    out of range. ``fit`` is called once per round, or more often when the boosting rule asks for
    another try with another seed; it gets the round's context, whose ``weak_task`` says what to fit. By
    ``uses`` a learner says what it looks at: ``"labelled"``, the rows ``context.X.rows(task.rows)``, and
    those of validation nodes; ``"all rows"``, the rows of other nodes too; ``"graph"``, also P, the raw
    features and the hops so far. Labels of other nodes are in no context. A learner of one's own is a few
    lines::

        @dataclass(kw_only=True, eq=False, repr=False)
        class Constant(Learner):
            def check(self):
                pass

            def fit(self, context):
                task = context.weak_task
                return ConstantHead(task.weights @ task.targets.to(task.weights))
    """

    uses: ClassVar[str] = LABELLED

    takes_gaps: ClassVar[bool] = False
    """Whether rows may have missing values (NaN) and codes of categories."""

    hears_labels: ClassVar[bool] = False
    """Whether its heads look at the labels that are known in a graph."""

    takes_offsets: ClassVar[bool] = False
    """Whether it can be asked to make the loss of offsets and outputs small; see :class:`WeakTask`."""

    trains_in_threads: ClassVar[bool] = False
    """Whether several threads may call ``fit`` at once, as long as each computes on a CPU."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Let a class that trains in its own way be asked to, also where its parent trains many at once."""
        super().__init_subclass__(**options)
        if "fit" in vars(cls) and "fit_many" not in vars(cls):
            cls.fit_many = classmethod(Learner.fit_many.__func__)  # type: ignore[assignment,attr-defined]

    @abstractmethod
    def check(self) -> None:
        """Raise when a setting is out of range."""

    @abstractmethod
    def fit(self, context: RoundContext) -> Head:
        """Train one head."""

    @classmethod
    def fit_many(cls, learners: Sequence[Any], context: RoundContext) -> Heads:
        """Train the heads of several members, whose learners are of this class: one after another.

        Overridden where several can be trained at once. The context has an axis of members.
        """
        return ListedHeads([learner.fit(context.member(i)) for i, learner in enumerate(learners)])

    @property
    def watches_validation(self) -> bool:
        """Whether training depends on the validation nodes."""
        return False

    @property
    def is_differentiable(self) -> bool:
        """Whether its heads have parameters that a gradient can move; fine-tuning needs that."""
        return True

    def hypothesis_space(self) -> HeadSpace | None:
        """Return what ``fit`` chooses from, or None where no norm bounds it."""
        return None
