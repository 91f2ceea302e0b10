"""Taking the rounds of a model apart: by distance, and by column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from gbgnn._threads import one_thread
from gbgnn.boosting import Ensemble, Voting
from gbgnn.errors import AbsentError
from gbgnn.explanations.graph_views import GraphView
from gbgnn.explanations.integrals import spread_remainder
from gbgnn.explanations.scales import AVERAGE, order_scales
from gbgnn.explanations.views import (
    NO_PARTS_OF_A_CHOICE,
    Look,
    Parts,
    View,
    WalkView,
    WeightedView,
    find_senders,
    view_columns,
)
from gbgnn.explanations.walks import Heard, in_blocks, listen
from gbgnn.learners import Head
from gbgnn.origins import Origin, Scale
from gbgnn.problem import NodeInputs
from gbgnn.propagation import Representation

Floats = NDArray[np.float64]


class ByScale(NamedTuple):
    """What rounds added by distance, (nodes, rounds, scales, outputs), and the most that parts missed."""

    keys: list[Scale]
    values: Floats
    remainder: float


class ByColumn(NamedTuple):
    """What columns added in all rounds, (nodes, columns, outputs), to what, and the most that they missed."""

    origins: list[Origin]
    values: Floats
    base: Floats
    remainder: float


class BySender(NamedTuple):
    """What nodes added to the scores of one, (N, outputs), what to, and what rounds that do not say added."""

    values: Floats
    base: Floats
    rest: Floats
    silent: list[int]


@dataclass(frozen=True, eq=False)
class Rounds:
    """The rounds of a model on a graph, and some nodes whose scores are to be explained.

    Parameters
    ----------
    ensemble
        The rounds that predict.
    voting
        How they do.
    inputs
        P and features of the graph.
    raw, own
        What the columns of the features are, and those of what a node has of its own.
    nodes
        The nodes.
    """

    ensemble: Ensemble
    voting: Voting
    inputs: NodeInputs
    raw: Sequence[Origin]
    own: Sequence[Origin]
    nodes: torch.Tensor

    @property
    def looks(self) -> list[Look]:
        """What the learner of each round looks at."""
        return self._passed[0]

    @property
    def added(self) -> torch.Tensor:
        """What each round added to the scores of the nodes, (nodes, rounds, outputs)."""
        return self._passed[1]

    @cached_property
    def _passed(self) -> tuple[list[Look], torch.Tensor]:
        """Go through the rounds once; representations are kept only where they are needed again."""
        X, looks, added = self.inputs.features, [], []
        walks: NDArray[np.float64] | None = np.ones(1)
        origins: list[Origin] | None = list(self.raw)
        with one_thread():
            for trained in self.ensemble:
                X = trained.hop(X, self.inputs)
                walks = None if walks is None else trained.hop.extend_walks(walks)
                origins = None if origins is None else trained.hop.name_columns(origins, trained.t - 1)
                look = Look(trained, X, walks, origins, self.raw)
                added.append(self.voting.direction(self._output(look.head, X)) * trained.eta)
                looks.append(replace(look, X=None) if is_walk(look) or not look.head.sees_rows else look)
        return looks, torch.stack(added, dim=1).double()

    def _output(self, head: Head, X: Representation) -> torch.Tensor:
        """Return what a head says of the nodes: of their rows alone, where it sees no more."""
        if not head.sees_rows or not len(self.nodes):  # of no rows some libraries say nothing
            return head.evaluate(X, self.inputs)[self.nodes]
        rows = X.rows(self.nodes)
        with torch.no_grad():
            said = [weights[:, None] * own(rows) for own, weights in head.voices(self.nodes, self.inputs)]
        return torch.stack(said).sum(dim=0)

    def by_scale(self) -> ByScale:
        """Return what rounds added by distance; raise AbsentError where a round cannot be taken apart.

        Where every round sees one distance only, what it added is of that. Elsewhere a round is taken apart,
        and what it says of average features stands by itself.
        """
        only = [self._only_scale(look) for look in self.looks]
        if all(each is not None for each in only):
            apart: list[Parts | None] = [None] * len(only)
        else:
            apart = self._take_apart(lambda view: view.by_scale(), may_be_whole=[s is not None for s in only])
        names = [
            [scale] if parts is None else [*parts.names, AVERAGE]
            for scale, parts in zip(only, apart, strict=True)
        ]
        keys = order_scales(name for own in names for name in own if name is not None)
        n_nodes, n_rounds, n_outputs = self.added.shape
        values, remainder = np.zeros((n_nodes, n_rounds, len(keys), n_outputs)), 0.0
        for t, (own, parts) in enumerate(zip(names, apart, strict=True)):
            found = self.added[:, t, None]
            if parts is not None:
                found, left = close(parts, self.looks[t].trained.eta, self.added[:, t])
                remainder = max(remainder, left)
            values[:, t, [keys.index(name) for name in own if name is not None]] = found.cpu().numpy()
        return ByScale(keys, values, remainder)

    def by_column(self) -> ByColumn:
        """Return what columns added; raise AbsentError where a round does not say."""
        apart = self._take_apart(lambda view: view.by_column())
        totals: dict[Origin, torch.Tensor] = {}
        base, remainder = torch.zeros_like(self.added[:, 0]), 0.0
        for t, parts in enumerate(apart):
            assert parts is not None
            closed, left = close(parts, self.looks[t].trained.eta, self.added[:, t])
            base, remainder = base + closed[:, -1], max(remainder, left)
            for i, origin in enumerate(parts.names):
                value = closed[:, i]
                totals[origin] = totals[origin] + value if origin in totals else value
        values = torch.stack(list(totals.values()), dim=1)
        return ByColumn(list(totals), values.cpu().numpy(), base.cpu().numpy(), remainder)

    def by_sender(self, i: int) -> BySender:
        """Return what nodes added to the scores of the i-th; rounds that do not say stay whole."""
        added = self.added[i : i + 1]
        values = added.new_zeros(self.inputs.n_nodes, added.shape[2])
        base, rest = torch.zeros_like(added[0, 0]), torch.zeros_like(added[0, 0])
        silent, why = [], None
        for t, parts in enumerate(self._find_senders(i)):
            if isinstance(parts, AbsentError):
                silent.append(t)
                rest, why = rest + added[0, t], parts
                continue
            closed, _ = close(parts, self.looks[t].trained.eta, added[:, t])
            values[list(parts.names)] += closed[0, :-1]
            base = base + closed[0, -1]
        if why is not None and len(silent) == len(self.looks):
            raise AbsentError(f"it is not known what each neighbour added: {why}") from why
        return BySender(values.cpu().numpy(), base.cpu().numpy(), rest.cpu().numpy(), silent)

    def _find_senders(self, i: int) -> list[Parts | AbsentError]:
        """Return what nodes add to what each round says of the i-th, or why that is not known."""
        node = self.nodes[i : i + 1]
        heard = None if self._heard is None else self._heard.of(i)
        found: list[Parts | AbsentError] = [AbsentError(NO_PARTS_OF_A_CHOICE)] * len(self.looks)
        walks: dict[int, WalkView] = {}
        for t, look in enumerate(self.looks):
            try:
                told = look.head.senders(self.inputs, int(node)) if self.voting.adds_outputs else None
                if told is not None:
                    start = torch.zeros_like(told[:1]).double()
                    found[t] = Parts(range(len(told)), told[None].double(), start)
                    continue
                view = self._view(look, node, heard)
                if not is_walk(look):
                    found[t] = view.by_sender()
                elif not self.voting.is_choice:
                    assert isinstance(view, WalkView)
                    walks[t] = view
            except AbsentError as error:
                found[t] = error
        if walks:
            for t, parts in zip(walks, find_senders(list(walks.values())), strict=True):
                found[t] = parts
        return found

    def _only_scale(self, look: Look) -> Scale | None:
        """Return the scale of all that a round sees, None where it sees several."""
        if look.head.sees_rows:
            return look.scale
        unfolded = look.head.unfold(self.inputs)
        if unfolded is None:
            return look.head.looks_at
        lengths = np.flatnonzero(unfolded.walks)
        return int(lengths[0]) if len(lengths) == 1 else None

    def _take_apart(
        self, ask: Callable[[View], Parts], may_be_whole: Sequence[bool] | None = None
    ) -> list[Parts | None]:
        """Return the parts of each round, the nodes a block at a time; None of one that stays whole."""
        found: list[list[Parts | None]] = [[] for _ in self.looks]
        for block in in_blocks(self.nodes, max(1, self._n_lengths), self.inputs.features.shape[1]):
            heard = self._heard if len(block) == len(self.nodes) else self._listen(block)
            for t, look in enumerate(self.looks):
                try:
                    found[t].append(ask(self._view(look, block, heard)))
                except AbsentError:
                    if may_be_whole is None or not may_be_whole[t]:
                        raise
                    found[t].append(None)
        return [_join(each) for each in found]

    @cached_property
    def _n_lengths(self) -> int:
        """How many lengths of walks are looked at; 0 where no round is one of walks."""
        walks = [look.walks for look in self.looks if is_walk(look)]
        return max((len(each) for each in walks if each is not None), default=0)

    @cached_property
    def _heard(self) -> Heard | None:
        """What all nodes hear, where that is asked for at once."""
        return self._listen(self.nodes)

    def _listen(self, nodes: torch.Tensor) -> Heard | None:
        if not self._n_lengths:
            return None
        return listen(self.inputs.P, self.inputs.features, nodes, self._n_lengths)

    def _view(self, look: Look, nodes: torch.Tensor, heard: Heard | None) -> View:
        voices = look.head.voices(nodes, self.inputs)
        views = [self._view_head(look, head, nodes, heard) for head, _ in voices]
        return views[0] if len(views) == 1 else WeightedView(views, [weights for _, weights in voices])

    def _view_head(self, look: Look, head: Head, nodes: torch.Tensor, heard: Heard | None) -> View:
        if head.sees_rows:
            if heard is not None and look.origins is not None and is_walk(look):
                return self._walk_view(head, self.inputs.features, nodes, heard, look.walks, look.origins)
            return view_columns(look, head, self.voting, nodes)
        unfolded = head.unfold(self.inputs)
        if unfolded is not None:
            features, walks = unfolded.features, unfolded.walks
            own = listen(self.inputs.P, features, nodes, len(walks), unfolded.shift)
            return self._walk_view(unfolded.head, features, nodes, own, walks, self.own)
        if head.enters_graph:
            return GraphView(head, self.voting, self.inputs, nodes, self.own)
        raise AbsentError(
            f"{type(head).__name__} of round {look.trained.t} hears the graph in a way that has no parts."
        )

    def _walk_view(
        self,
        head: Head,
        features: Representation,
        nodes: torch.Tensor,
        heard: Heard,
        walks: NDArray[np.float64] | None,
        origins: Sequence[Origin],
    ) -> View:
        assert walks is not None
        known = torch.from_numpy(walks).to(nodes.device)
        return WalkView(head, self.voting, self.inputs.P, features, nodes, heard, known, origins)


def is_walk(look: Look) -> bool:
    """Return whether a round's rows are those of a polynomial in P, with columns that are what they were."""
    is_known = look.walks is not None and look.origins is not None
    return is_known and look.head.sees_rows and look.head.passes_gradient


def close(parts: Parts, eta: float, added: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Return parts, the start last, that sum to what a round added, and the most that they missed."""
    whole = eta * torch.cat([parts.values, parts.start[:, None]], dim=1)
    return spread_remainder(whole.to(added.device), added)


def _join(blocks: Sequence[Parts | None]) -> Parts | None:
    """Return the parts of all nodes."""
    known = [each for each in blocks if each is not None]
    if not known:
        return None
    return Parts(
        known[0].names, torch.cat([each.values for each in known]), torch.cat([each.start for each in known])
    )
