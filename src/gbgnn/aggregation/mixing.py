"""Linear and NonLinear: aggregations that mix columns as well as nodes, with a hard bound on the mixing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gbgnn._checks import check_choice, check_integer, check_number
from gbgnn._optimizers import OPTIMIZERS, Stepper
from gbgnn._projections import project_columns
from gbgnn._threads import threads_for
from gbgnn.aggregation.base import Aggregation, Hop, HopSpace
from gbgnn.aggregation.polynomial import PolynomialHop
from gbgnn.problem import NodeInputs
from gbgnn.propagation import DenseRows, Representation
from gbgnn.propagation.rows import BLOCK_BYTES
from gbgnn.rounds import RoundContext


@dataclass(frozen=True, eq=False)
class MixingHop(Hop):
    r""":math:`X \mapsto P X W`, followed by a ReLU where not ``is_linear``.

    With many columns the L1 balls keep most of W at zero, so its other entries are all that is stored: on
    Cora some 10 thousand a round instead of 2 million.
    """

    positions: torch.Tensor  # where in W, row after row, its entries are not zero
    values: torch.Tensor  # those entries
    n_columns: int  # number of rows and columns of W
    is_linear: bool = True
    alignment: float | None = None  # the centred one that the labelled rows reached, where W was learned

    @classmethod
    def from_weight(
        cls, weight: torch.Tensor, is_linear: bool = True, alignment: float | None = None
    ) -> MixingHop:
        """Build the hop of a W."""
        flat = weight.flatten()
        positions = flat.nonzero()[:, 0]
        return cls(positions, flat[positions], len(weight), is_linear, alignment)

    @property
    def weight(self) -> torch.Tensor:
        """W, shape (n_columns, n_columns)."""
        flat = self.values.new_zeros(self.n_columns**2)
        flat[self.positions] = self.values
        return flat.view(self.n_columns, self.n_columns)

    def __call__(self, X: Representation, inputs: NodeInputs) -> Representation:
        """Return the next representation."""
        # (P X) W needs one array of the size of X, P (X W) would need two.
        return self.mix_columns(inputs.P(X.dense()))

    def mix_columns(self, product: torch.Tensor) -> Representation:
        """Apply W to P X, block by block of rows and in its place."""
        weight, n_columns = self.weight.to(product), product.shape[1]
        with threads_for(product.numel() * n_columns):
            for block in product.split(max(1, BLOCK_BYTES // (n_columns * product.element_size()))):
                mixed = block @ weight
                block.copy_(mixed if self.is_linear else mixed.relu_())
        return DenseRows(product)

    def extend_walks(self, before: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return walks that are a step longer, whatever happens to the columns on the way."""
        return np.append(0.0, before)

    def record(self) -> dict[str, Any]:
        """Return the size of W, the largest absolute sum of a column, and the alignment."""
        norms = self.weight.abs().sum(dim=0, dtype=torch.float64)
        return {
            "n_columns": self.n_columns,
            "max_norm": float(norms.max()),
            "is_linear": self.is_linear,
            "alignment": self.alignment,
        }

    def state(self) -> dict[str, torch.Tensor]:
        """Return the entries of W."""
        return {"positions": self.positions, "values": self.values}

    @classmethod
    def from_record(cls, record: dict[str, Any], state: dict[str, torch.Tensor]) -> MixingHop:
        """Build the hop again."""
        positions, values = state["positions"], state["values"]
        return cls(positions, values, record["n_columns"], record["is_linear"], record["alignment"])


class CentredAlignment:
    r"""How much alike the Gram matrices of mixed rows and of the labels are, and which W would raise it.

    With Z the labelled rows of P X, H = Z W (or its ReLU), and both H and the one-hot labels Y centred and
    weighted, the centred kernel target alignment (Cortes et al., 2012) is

    .. math:: \rho(W) = \frac{\langle H H^\top, Y Y^\top\rangle}{\|H H^\top\|_F \, \|Y Y^\top\|_F}.

    It is the paper's own criterion for a learned aggregation, centred because the MLP centres its inputs
    too. It does not change with the scale of Z or W.

    ``rows`` are Z, shape (M, C); ``codes`` their labels as vectors, shape (M, K), see :meth:`Task.codes
    <gbgnn.tasks.Task.codes>`; ``weights`` theirs, which sum to one. ``spread`` is the variance of all columns
    of Z over that of the largest: how many columns count.
    """

    def __init__(
        self, rows: torch.Tensor, codes: torch.Tensor, weights: torch.Tensor, is_linear: bool
    ) -> None:
        tiny = torch.finfo(rows.dtype).tiny
        # Unit size, however far depth has shrunk the rows: squares of tiny numbers are zero.
        self.rows, self.is_linear = rows / rows.abs().max().clamp_min(tiny), is_linear
        self.shares = weights.to(rows.dtype)[:, None]
        variances = self._centred(self.rows).square().sum(dim=0)
        self.spread = float(variances.sum() / variances.max().clamp_min(tiny))
        self.labels = self._centred(codes.to(rows.dtype))
        self.labels /= (self.labels.T @ self.labels).norm().sqrt().clamp_min(tiny)  # then ||Y Y^T|| = 1

    def value_and_gradient(self, weight: torch.Tensor) -> tuple[float, torch.Tensor]:
        """Return the alignment and its gradient in W; both are 0 where all mixed rows are the same."""
        mixed = self.rows @ weight
        if not self.is_linear:
            mixed.relu_()
        H = self._centred(mixed)
        length = H.norm()
        if not length > 0:
            return 0.0, torch.zeros_like(weight)
        H /= length  # the alignment does not notice, and fourth powers stay in the range of the type
        if len(H) <= H.shape[1]:  # H H^T and H^T H have the same norm; take the smaller
            gram = H @ H.T
            cubed = gram @ H
        else:
            gram = H.T @ H
            cubed = H @ gram
        size, agreement = gram.norm(), self.labels.T @ H
        value = agreement.square().sum() / size
        # The chain rule ends at the ReLU: columns of H sum to zero already, so centring changes nothing.
        gradient = (self.labels @ agreement - cubed * (value / size)) * (2 / (size * length))
        gradient *= self.shares.sqrt()
        if not self.is_linear:
            gradient *= mixed.sign()
        return float(value), self.rows.T @ gradient

    def _centred(self, rows: torch.Tensor) -> torch.Tensor:
        return (rows - (self.shares * rows).sum(dim=0)) * self.shares.sqrt()


@dataclass(kw_only=True, eq=False, repr=False)
class MixingAggregation(Aggregation):
    """What Linear and NonLinear share: everything but the ReLU."""

    is_linear = True  # whether there is no ReLU

    max_norm: float = 1.0
    optimizer: str = "sgd"
    learning_rate: float = 0.2
    epochs: int = 5

    def check(self) -> None:
        """Raise when a setting is out of range."""
        owner = type(self).__name__
        check_number(owner, "max_norm", self.max_norm, 0, open_low=True, open_high=True)
        check_choice(owner, "optimizer", self.optimizer, OPTIMIZERS)
        check_number(owner, "learning_rate", self.learning_rate, 0, open_low=True, open_high=True)
        check_integer(owner, "epochs", self.epochs, 0)

    def fit(self, context: RoundContext, product: torch.Tensor | None = None) -> MixingHop:
        """Learn W from the labelled rows of P X, by projected gradient steps from ``max_norm`` times I."""
        product = context.inputs.P(context.X.dense()) if product is None else product
        train, n_columns = context.train, product.shape[1]
        codes = context.problem.task.codes(train.targets, product.dtype)
        alignment = CentredAlignment(product[train.rows], codes, train.weights, self.is_linear)
        weight = self.max_norm * torch.eye(n_columns, dtype=product.dtype, device=product.device)
        # Steps are in units of the ball. A column's gradient is its share of the whole, so that among a
        # thousand it would hardly move: scaled, the largest moves equally far however many there are.
        stepper = Stepper(self.optimizer, [weight], self.learning_rate * self.max_norm)
        with threads_for(train.size * n_columns**2):
            for _ in range(self.epochs):
                _, gradient = alignment.value_and_gradient(weight)
                stepper.step([gradient.mul_(-self.max_norm * alignment.spread)])  # uphill
                project_columns(weight, self.max_norm)
            reached, _ = alignment.value_and_gradient(weight)
        return MixingHop.from_weight(weight, self.is_linear, reached)

    def step(self, context: RoundContext) -> tuple[Hop, Representation]:
        """Learn W, and apply it to the product that it was learned from."""
        product = context.inputs.P(context.X.dense())
        hop = self.fit(context, product)
        return hop, hop.mix_columns(product)

    def hypothesis_space(self) -> HopSpace:
        """Return the product with P, then any W of the ball."""
        return HopSpace(PolynomialHop((1,), (1.0,)), self.max_norm, self.is_linear)


@dataclass(kw_only=True, eq=False, repr=False)
class Linear(MixingAggregation):
    r"""Mix columns too: :math:`X^{(t)} = P X^{(t-1)} W`, every column of W in an L1 ball.

    This is the aggregation of the paper's bounds, which ask no more of W than the ball. W starts at
    ``max_norm`` times the identity and learns to align the Gram matrix of the labelled rows with that of
    the labels, by gradient steps each followed by the projection on the balls. The start is a corner of
    them: a column that tells the classes apart stays there, one that does not shrinks, or borrows from
    others.

    Parameters
    ----------
    max_norm
        The paper's :math:`\tilde{C}`: the most that the absolute values in a column of W sum to. It scales
        the result and changes nothing else; other than 1 it compounds with depth, as it does in the bounds.
    optimizer, learning_rate, epochs
        The gradient method: ``"sgd"``, ``"adam"`` or ``"rmsprop"``, its step, relative to ``max_norm``, and
        its number of steps. 0 epochs is :class:`~gbgnn.aggregation.Adjacency`, scaled. Plain steps end
        where the labels have no more to say. The other two methods take the same step in every entry of
        W, be its gradient a rounding error: give them a hundredth of the default.

    Notes
    -----
    W has as many rows as there are features: the cost of a round grows with their square.

    Examples
    --------
    >>> from gbgnn.testing import make_round, two_blocks
    >>> import numpy as np
    >>> graph, y = two_blocks(20)
    >>> context = make_round(graph, y, np.arange(8))
    >>> fits = [Linear(epochs=epochs).fit(context) for epochs in (0, 10)]
    >>> fits[0].alignment < fits[1].alignment
    True
    >>> bool(fits[1].weight.abs().sum(dim=0).max() <= 1)
    True
    """


@dataclass(kw_only=True, eq=False, repr=False)
class NonLinear(MixingAggregation):
    r"""Mix columns and cut at zero: :math:`X^{(t)} = \mathrm{relu}(P X^{(t-1)} W)`.

    The settings are those of :class:`Linear`, and so is the way in which W is learned, through the ReLU.
    Its bounds are looser: they see how far P can stretch any representation, not what it does to this one.

    Parameters
    ----------
    max_norm, optimizer, learning_rate, epochs
        As in :class:`Linear`.

    Examples
    --------
    >>> from gbgnn.testing import make_round, two_blocks
    >>> import numpy as np
    >>> graph, y = two_blocks(20)
    >>> hop, X = NonLinear().step(make_round(graph, y, np.arange(8)))
    >>> bool(X.dense().min() == 0)
    True
    """

    is_linear = False
