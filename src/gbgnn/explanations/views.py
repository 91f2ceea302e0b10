"""Views: how what a round adds to scores comes of what its learner sees, for some nodes.

There is a view for each way in which outputs can be taken apart. Numbers are those before the step, by which
whoever asks multiplies.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from gbgnn.boosting import Round, Voting
from gbgnn.errors import AbsentError
from gbgnn.explanations.integrals import integrate, integrate_layers
from gbgnn.explanations.walks import Heard, find_means, weigh_senders
from gbgnn.learners import Head
from gbgnn.origins import Origin, Scale
from gbgnn.propagation import Propagator, Representation

NO_PARTS_OF_A_CHOICE = (
    "a round votes for one class, however sure it is, so that its vote has no parts; ask "
    'contributions(...).by_round, or fit with rule="gradient".'
)


class Parts(NamedTuple):
    """What sums over the second axis of ``values``, (nodes, names, outputs), and ``start``, to outputs."""

    names: Sequence[Any]
    values: torch.Tensor
    start: torch.Tensor


@dataclass(frozen=True, eq=False)
class Look:
    """What the learner of a round looks at.

    ``X`` is the representation, None where it is not needed any more; ``walks`` the coefficients of the
    polynomial in P that made it of the raw features, None where it is none. ``origins`` are those of its
    columns, None where each is made of several; ``raw`` are those of the raw features.
    """

    trained: Round
    X: Representation | None
    walks: NDArray[np.float64] | None
    origins: Sequence[Origin] | None
    raw: Sequence[Origin]

    @property
    def head(self) -> Head:
        """The fitted learner."""
        return self.trained.kept_head()

    @cached_property
    def length(self) -> int | None:
        """The length of all walks along which features came; None where there are several."""
        found = [] if self.walks is None else np.flatnonzero(self.walks).tolist()
        return found[0] if len(found) == 1 else None

    @property
    def scale(self) -> Scale | None:
        """The only scale that the learner sees; None where it sees several."""
        if not self.head.sees_rows:
            return None
        is_own = all(each.scale == 0 for each in self.raw)
        return self.length if is_own else None


class View(ABC):
    """How the outputs of a head at some nodes are the sum of parts."""

    @abstractmethod
    def by_scale(self) -> Parts:
        """Return parts by scale; raise AbsentError where there are none."""

    @abstractmethod
    def by_column(self) -> Parts:
        """Return parts by :class:`~gbgnn.origins.Origin`; raise AbsentError where there are none."""

    def by_sender(self) -> Parts:
        """Return parts of one node, all nodes as their names; raise AbsentError where there are none."""
        raise AbsentError("it is not known of whom a round heard what it says.")


@dataclass(frozen=True, eq=False)
class WalkView(View):
    """A differentiable head of rows that are a polynomial in P times features."""

    head: Head
    voting: Voting
    P: Propagator
    features: Representation
    nodes: torch.Tensor
    heard: Heard
    walks: torch.Tensor
    origins: Sequence[Origin]

    @cached_property
    def _start(self) -> torch.Tensor:
        return self.heard.start(self.walks)

    @cached_property
    def _moved(self) -> torch.Tensor:
        return self.heard.mixed(self.walks)

    @cached_property
    def integrals(self) -> torch.Tensor:
        """By what the parts of rows are to be multiplied, (nodes, columns, outputs)."""
        return find_integrals(self.head, self.voting, self._start, self._start + self._moved)

    @property
    def start(self) -> torch.Tensor:
        """The outputs in a graph of average nodes."""
        return evaluate(self.head, self.voting, self._start)

    def by_column(self) -> Parts:
        """Return the integrals times how rows differ from those of average nodes."""
        return Parts(self.origins, self._moved[..., None] * self.integrals, self.start)

    def by_scale(self) -> Parts:
        """Return the same by the length of walks; labels nearby and positions stay what they are."""
        totals: dict[Scale, torch.Tensor] = {}
        for scale, columns in group(self.origins):
            for k in self.walks.nonzero()[:, 0].tolist():
                part = self.walks[k] * self.heard.rows[k][:, columns]
                value = torch.einsum("nc,nco->no", part, self.integrals[:, columns])
                add_to(totals, scale + k if isinstance(scale, int) else scale, value)
        return Parts(list(totals), torch.stack(list(totals.values()), dim=1), self.start)

    def by_sender(self) -> Parts:
        """Return how much of the row comes from each node, times the integrals."""
        return find_senders([self])[0]


_SENDERS_AT_ONCE = 4096


def find_senders(views: Sequence[WalkView]) -> list[Parts]:
    """Return what each node adds to the outputs of one, for views that differ in walks and heads alone."""
    first = views[0]
    weights = weigh_senders(first.P, int(first.nodes[0]), [view.walks for view in views])
    integrals = torch.cat([view.integrals[0] for view in views], dim=1)
    senders = weights.any(dim=0).nonzero()[:, 0]
    told = torch.cat(
        [
            (first.features.rows(some).double() - first.heard.means) @ integrals
            for some in senders.split(_SENDERS_AT_ONCE)
        ]
    )
    n_outputs = first.integrals.shape[2]
    return [
        Parts(senders.tolist(), (own[senders, None] * part)[None], view.start)
        for view, own, part in zip(views, weights, told.split(n_outputs, dim=1), strict=True)
    ]


@dataclass(frozen=True, eq=False)
class ColumnsView(View):
    """Values of columns that are known one by one; all of their features came along walks of one length."""

    values: torch.Tensor
    start: torch.Tensor
    origins: Sequence[Origin]
    length: int | None
    t: int
    nodes: torch.Tensor

    def by_column(self) -> Parts:
        """Return the values."""
        return Parts(self.origins, self.values, self.start)

    def by_scale(self) -> Parts:
        """Return the sums of columns from the same distance."""
        if self.length is None:
            raise AbsentError(
                f"trees of round {self.t} split on sums over several hops, which have no parts; ask by_round."
            )
        totals: dict[Scale, torch.Tensor] = {}
        for scale, columns in group(self.origins):
            reached = scale + self.length if isinstance(scale, int) else scale
            add_to(totals, reached, self.values[:, columns].sum(dim=1))
        return Parts(list(totals), torch.stack(list(totals.values()), dim=1), self.start)

    def by_sender(self) -> Parts:
        """Return all as the node's own where columns are; others do not say of whom they were heard."""
        if self.length != 0 or any(each.scale != 0 for each in self.origins):
            raise AbsentError(
                f"round {self.t} uses columns made of several nodes, which do not say of whom they come."
            )
        return Parts(self.nodes.tolist(), self.values.sum(dim=1, keepdim=True), self.start)


@dataclass(frozen=True, eq=False)
class WeightedView(View):
    """Several views of the same columns, each with a weight for every node."""

    views: Sequence[View]
    weights: Sequence[torch.Tensor]

    def by_scale(self) -> Parts:
        """Return the weighted sums by scale."""
        return self._add([view.by_scale() for view in self.views])

    def by_column(self) -> Parts:
        """Return the weighted sums by column."""
        return self._add([view.by_column() for view in self.views])

    def by_sender(self) -> Parts:
        """Return the weighted sums by sender; all views have the same."""
        return self._add([view.by_sender() for view in self.views])

    def _add(self, parts: Sequence[Parts]) -> Parts:
        pairs = list(zip(self.weights, parts, strict=True))
        values = sum(weight[:, None, None] * each.values for weight, each in pairs)
        start = sum(weight[:, None] * each.start for weight, each in pairs)
        assert isinstance(values, torch.Tensor)
        assert isinstance(start, torch.Tensor)
        return Parts(parts[0].names, values, start)


def view_columns(look: Look, head: Head, voting: Voting, nodes: torch.Tensor) -> View:
    """Return the view of a head of rows, whatever made them, as long as its columns have names."""
    if look.origins is None:
        raise AbsentError(
            f"from round {look.trained.t} on, {type(look.trained.hop).__name__} makes every column of "
            'several others, so that nothing is known of each; aggregation="adjacency" or "kta" keeps them '
            "apart."
        )
    assert look.X is not None
    rows = look.X.rows(nodes)
    if head.passes_gradient:
        rows, means = rows.double(), find_means(look.X)
        start = means.expand_as(rows)
        values = (rows - start)[..., None] * find_integrals(head, voting, start, rows)
        return ColumnsView(values, evaluate(head, voting, start), look.origins, 0, look.trained.t, nodes)
    found = head.shapley(rows.cpu().numpy()) if voting.adds_outputs else None
    if found is None:
        raise AbsentError(
            f"what {type(head).__name__} of round {look.trained.t} says is not known as a sum over columns; "
            'of networks and boosted trees it is, with rule="gradient".'
        )
    values, base = (torch.from_numpy(each).to(nodes.device) for each in found)
    return ColumnsView(values, base.expand(len(nodes), -1), look.origins, look.length, look.trained.t, nodes)


def find_integrals(head: Head, voting: Voting, start: torch.Tensor, end: torch.Tensor) -> torch.Tensor:
    """Return the integrals of what a head adds, on the way from one row to another."""
    if voting.is_choice:
        raise AbsentError(NO_PARTS_OF_A_CHOICE)
    double = as_double(head)
    layers = double.relu_layers() if voting.adds_outputs else None
    if layers is not None and len(layers) <= 2:
        return integrate_layers(layers, start, end)
    split = double.split()
    if split is None:
        return integrate(lambda rows: voting.direction(double(rows)), start, end)
    weight, bias, rest = (
        split  # a straight way stays straight through a linear layer, and has fewer columns there
    )
    found = integrate(
        lambda hidden: voting.direction(rest(hidden)), start @ weight.t() + bias, end @ weight.t() + bias
    )
    return torch.einsum("nuo,uc->nco", found, weight)


def evaluate(head: Head, voting: Voting, rows: torch.Tensor) -> torch.Tensor:
    """Return what a head adds for rows, in double precision."""
    with torch.no_grad():
        return voting.direction(as_double(head)(rows))


def as_double(head: Head) -> Head:
    """Return a copy of a head in double precision."""
    return copy.deepcopy(head).double()


def group(origins: Iterable[Origin]) -> list[tuple[Scale, list[int]]]:
    """Return the places of columns by scale, in the order of the first of each.

    Examples
    --------
    >>> group([Origin("a", "a"), Origin("mean of neighbours' a", "a", scale=1), Origin("b", "b")])
    [(0, [0, 2]), (1, [1])]
    """
    found: dict[Scale, list[int]] = {}
    for i, each in enumerate(origins):
        found.setdefault(each.scale, []).append(i)
    return list(found.items())


def add_to(totals: dict[Any, torch.Tensor], key: Any, value: torch.Tensor) -> None:
    """Add a value to what is there under a key."""
    totals[key] = totals[key] + value if key in totals else value
