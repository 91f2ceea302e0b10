"""LayeredNetwork: a boosted model whose rounds see columns of their own, with the gradient through them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, final

import torch
from torch.func import functional_call

from gbgnn.aggregation import Hop, LearnedHop
from gbgnn.aggregation.learned import apply_hidden
from gbgnn.boosting import Ensemble, Round, Voting
from gbgnn.finetuning.base import ETAS, LEARNERS, Positions, TunedNetwork, too_small
from gbgnn.finetuning.network import HeadStack
from gbgnn.finetuning.representations import PRODUCT_ARRAYS
from gbgnn.propagation import DenseRows, JoinedRows, Representation
from gbgnn.propagation.product import Mixing

_BLOCK_BYTES_ON_CPU = 8 * 2**20  # what is computed of a few nodes is still in the cache when it is read

States = dict[int, Representation]
"""Representations of all nodes, by the number of the round that sees them, from 0."""


@final
class LayeredNetwork(TunedNetwork):
    r"""The scores of the labelled nodes, round by round, where hops add columns or are learned.

    Through learned hops, :math:`X^{(t+1)} = [H_t, W H_t, X]` with :math:`H_t` the hidden layer of head t, all
    rounds are one deep network along the graph: head t is moved by what its own output does, and by what
    later rounds make of :math:`H_t`. Autograd would keep what every round computed of all nodes. Here the
    gradient in :math:`H_t` goes back round by round, and of one round a few nodes at a time; what a round
    needs is computed again from a representation before it. Where the memory suffices all representations are
    kept; otherwise those in the middle of what is left to do, of T rounds never more than :math:`\log_2 T`,
    for :math:`\log_2 T` times the products.

    Other hops have nothing to move, and no gradient passes them: the rows of labelled and validation nodes
    are kept where there is room for them.
    """

    def __init__(self, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self._check_moves(has_free_hops=False)
        self._hops = [trained.hop for trained in self.ensemble]
        self._is_learned = [isinstance(hop, LearnedHop) and LEARNERS in self.moves for hop in self._hops]
        self._is_deep = any(self._is_learned)
        self._walks = {
            name: Mixing(self._inputs.neighbours[name].walk)
            for hop in self._hops
            if isinstance(hop, LearnedHop)
            for name in hop.directions
        }
        self.stacks: list[HeadStack] = []
        self._held: list[torch.Tensor] | None = None
        self.plan = self._share_memory()
        if self.plan.is_held and not self._is_deep:
            with torch.no_grad():
                self._held = [X.rows(self._rows) for X in self._stream()]
        self.stacks = self._standardize_inputs()

    @property
    def work(self) -> int:
        """Multiply-adds of the largest products of a gradient."""
        n_rows = self._inputs.n_nodes if self._is_deep else len(self._rows)
        return n_rows * sum(value.numel() for head in self._boosted_heads for value in head.parameters())

    def parameters(self) -> dict[str, list[torch.Tensor]]:
        """Return the parameters that are fine-tuned, by kind."""
        weights = [value for stack in self.stacks for value in stack.parameters.values()]
        kinds = {LEARNERS: weights, ETAS: [self.etas]}
        return {kind: kinds[kind] for kind in self.moves if kind in kinds}

    def accumulate(self, positions: Positions, scale: float = 1.0) -> float:
        """Add the gradient of ``scale`` times the weighted loss to all parameters; return that loss."""
        kept: States = {}
        with torch.no_grad():
            scores = self._add_up(positions, self.voting, kept)
        scores.requires_grad_()
        values = self.loss.values(scores.double(), self._targets[positions])
        loss = scale * (values * self._weights[positions]).sum()
        loss.backward()
        assert scores.grad is not None
        if self._is_deep:
            back = _WayBack(self, self._ids(positions), scores.grad, kept)
            back.go(0, len(self._hops), self._first(), None)
        else:
            for t, X in enumerate(self._stream()):
                self.pull(t, X, self._ids(positions), scores.grad, None)
        return float(loss.detach())

    @torch.no_grad()
    def scores(self, positions: Positions, voting: Voting) -> torch.Tensor:
        """Return the scores of some nodes under ``voting``: the soft one, or the one of boosting."""
        return self._add_up(positions, voting, None)

    @torch.no_grad()
    def rebuild(self) -> Ensemble:
        """Return the model as it is now, in ordinary rounds; learned hops are those of the heads of now."""
        heads = self._boosted_heads
        if LEARNERS in self.moves:
            heads = [stack.rebuild()[0] for stack in self.stacks]
        rounds = []
        for t, (trained, head) in enumerate(zip(self.ensemble, heads, strict=True)):
            hop = trained.hop
            if isinstance(hop, LearnedHop) and self._is_learned[t]:
                hop = LearnedHop.from_head(heads[t - 1], hop.directions)
            rounds.append(Round(trained.t, hop, head, float(self.etas[t])))
        return Ensemble(tuple(rounds))

    def project(self) -> None:
        """Leave all parameters where they are: they may have any value."""

    def after_epoch(self) -> None:
        """Do nothing: every gradient starts from the features."""

    def advance(self, t: int, X: Representation) -> Representation:
        """Return what round t + 1 sees, X what round t sees."""
        return self._hop(t + 1)(X, self._inputs)

    def pull(
        self,
        t: int,
        X: Representation,
        ids: torch.Tensor,
        gradient: torch.Tensor,
        of_hidden: torch.Tensor | None,
    ) -> torch.Tensor | None:
        """Add to the gradients of what round t moves; return that of the hidden layer before, if it moves.

        ``gradient`` is that of the scores of the nodes ``ids``, and ``of_hidden`` that of this round's own
        hidden layer, of all nodes, by what later rounds made of it.
        """
        raw = {name: value[0] for name, value in self.stacks[t].raw().items()}
        # The gradients of a few nodes at a time add up in leaves, and go on to the parameters once.
        leaves = {name: value.detach().requires_grad_(LEARNERS in self.moves) for name, value in raw.items()}
        head, passed = self._boosted_heads[t], _Passed.build(X) if self._is_learned[t] else None
        for part, own in zip(ids.split(self.plan.n_rows), gradient.split(self.plan.n_rows), strict=True):
            rows = X.rows(part).requires_grad_(passed is not None)
            votes = self.voting.direction(functional_call(head, leaves, rows))
            (self.etas[t].to(votes.dtype) * votes).backward(own)
            if passed is not None:
                passed.add(part, rows)
        if of_hidden is not None:
            layers = [(leaves[weight], leaves[bias]) for weight, bias in head.hidden_layers]
            every = torch.arange(len(of_hidden), device=of_hidden.device)
            for part in every.split(self.plan.n_rows):
                rows = X.rows(part).requires_grad_(passed is not None)
                apply_hidden(layers, rows).backward(of_hidden[part])
                if passed is not None:
                    passed.add(part, rows)
        moved = [name for name, leaf in leaves.items() if leaf.grad is not None]
        if moved:
            torch.autograd.backward([raw[name] for name in moved], [leaves[name].grad for name in moved])
        hop = self._hops[t]
        if passed is None or not isinstance(hop, LearnedHop):
            return None
        return passed.to_hidden([self._walks[name] for name in hop.directions])

    def _hop(self, t: int) -> Hop:
        """Return the hop of a round, with the weights that the head before has now."""
        hop = self._hops[t]
        if not self.stacks or not self._is_learned[t] or not isinstance(hop, LearnedHop):
            return hop
        with torch.no_grad():
            raw = self.stacks[t - 1].raw()
        names = self._boosted_heads[t - 1].hidden_layers
        return LearnedHop(tuple((raw[weight][0], raw[bias][0]) for weight, bias in names), hop.directions)

    def _first(self) -> Representation:
        return self._hop(0)(self._inputs.features, self._inputs)

    def _stream(self) -> Iterator[Representation]:
        """Yield what every round sees: of all nodes, or the rows that are held."""
        if self._held is not None:
            yield from map(DenseRows, self._held)
            return
        X = self._first()
        yield X
        for t in range(len(self._hops) - 1):
            X = self.advance(t, X)
            yield X

    def _ids(self, positions: Positions) -> torch.Tensor:
        """Return the rows of what :meth:`_stream` yields that belong to some nodes."""
        every = self._rows if self._held is None else torch.arange(len(self._rows), device=self._rows.device)
        return every[positions]

    def _add_up(self, positions: Positions, voting: Voting, kept: States | None) -> torch.Tensor:
        """Return the scores of some nodes; representations go to ``kept`` where there is room for them."""
        ids, total = self._ids(positions), None
        for t, X in enumerate(self._stream()):
            if kept is not None and self.plan.is_held and self._is_deep:
                kept[t] = X
            raw = {name: value[0] for name, value in self.stacks[t].raw().items()}
            votes = torch.cat(
                [
                    voting.direction(functional_call(self._boosted_heads[t], raw, X.rows(part)))
                    for part in ids.split(self.plan.n_rows)
                ]
            )
            step = self.etas[t].detach().to(votes.dtype) * votes
            total = step if total is None else total + step
        assert total is not None
        return total

    @torch.no_grad()
    def _standardize_inputs(self) -> list[HeadStack]:
        """Return the heads as functions of inputs that are standardised by the labelled rows."""
        stacks, ids = [], self._ids(self.train)
        for head, X in zip(self._boosted_heads, self._stream(), strict=True):
            sums = squares = self.etas.new_zeros(())
            for part in ids.split(self.plan.n_rows):
                rows = X.rows(part).double()
                sums, squares = sums + rows.sum(dim=0), squares + rows.square().sum()
            centre = sums / len(ids)
            size = (squares / len(ids) - centre.square().sum()).clamp_min(0).sqrt()
            size = torch.where(size > 0, size, 1.0)
            dtype = self._inputs.dtype
            stack = HeadStack([head], centre.to(dtype)[None], size.to(dtype)[None])
            for value in stack.parameters.values():
                value.requires_grad_(LEARNERS in self.moves)
            stacks.append(stack)
        return stacks

    def _share_memory(self) -> LayerPlan:
        """Say whether representations or rows are held, and how many nodes are treated at once."""
        size, n_rounds = self._inputs.dtype.itemsize, len(self._hops)
        widths = self._count_columns()
        weights = [value for head in self._boosted_heads for value in head.parameters()]
        # Of a layer, weights and biases count it; one head is at work at a time.
        n_units = max(sum(each.shape[0] for each in head.parameters()) for head in self._boosted_heads)
        row = size * (3 * max(widths) + 4 * n_units)
        n_rows = max(self._inputs.n_nodes, len(self._rows))
        if self._inputs.device.type == "cpu":
            n_rows = min(n_rows, max(1, _BLOCK_BYTES_ON_CPU // row))
        state = self._inputs.n_nodes * (max(widths) - min(widths)) * size
        walks = sum(2 * each.P.nbytes for each in self._walks.values())  # with their transposes
        n_at_work = 3 + PRODUCT_ARRAYS  # what a round sees, the next, a gradient, and a product with P
        if self._is_deep:
            held, least = (n_at_work + n_rounds) * state, (n_at_work + math.ceil(math.log2(n_rounds))) * state
        else:
            held = least = n_at_work * state
            held += len(self._rows) * sum(widths) * size
        return plan_layers(
            self._limit,
            # The copy, its raw form, their gradients, two averages of the optimiser, the best so far.
            fixed=7 * sum(value.nbytes for value in weights) + walks,
            held=held,
            least=least,
            row=row,
            n_rows=n_rows,
        )

    def _count_columns(self) -> list[int]:
        """Return how many columns each round sees, by what its head takes; the least are the raw ones."""
        raw = self._inputs.features.shape[1]
        named = [head.first_layer for head in self._boosted_heads]
        found = [
            raw if names is None else head.get_parameter(names[0]).shape[1]
            for head, names in zip(self._boosted_heads, named, strict=True)
        ]
        return [raw, *found[1:]]


class LayerPlan(NamedTuple):
    """Whether what all rounds see is held, and how many nodes are treated at once."""

    is_held: bool
    n_rows: int


def plan_layers(limit: int, *, fixed: int, held: int, least: int, row: int, n_rows: int) -> LayerPlan:
    """Share ``limit`` bytes out: what is ``held``, if that fits, or the ``least``; the rest is for rows.

    Examples
    --------
    >>> plan_layers(1000, fixed=100, held=600, least=200, row=10, n_rows=50)
    LayerPlan(is_held=True, n_rows=30)
    >>> plan_layers(600, fixed=100, held=600, least=200, row=10, n_rows=50)
    LayerPlan(is_held=False, n_rows=30)
    """
    for is_held, taken in ((True, held), (False, least)):
        room = limit - fixed - taken
        if room >= row:
            return LayerPlan(is_held, min(n_rows, room // row))
    raise too_small(fixed + least + row, limit)


class _WayBack:
    """The gradient on its way from the last round to the first, ``kept`` what is known of the way there."""

    def __init__(
        self, network: LayeredNetwork, ids: torch.Tensor, gradient: torch.Tensor, kept: States
    ) -> None:
        self._network, self._ids, self._gradient, self._kept = network, ids, gradient, kept

    def go(
        self, first: int, last: int, X: Representation, of_hidden: torch.Tensor | None
    ) -> torch.Tensor | None:
        """Go through rounds ``first`` to before ``last``; X is what the first of them sees.

        ``of_hidden`` is the gradient of the hidden layer of the last of them; that of the one before the
        first is returned.
        """
        if last - first == 1:
            self._kept.pop(first, None)  # nobody needs it after this
            return self._network.pull(first, X, self._ids, self._gradient, of_hidden)
        middle = (first + last) // 2
        of_hidden = self.go(middle, last, self._find(first, middle, X), of_hidden)
        return self.go(first, middle, X, of_hidden)

    def _find(self, first: int, wanted: int, X: Representation) -> Representation:
        """Return what a round sees, known or computed from X, what round ``first`` sees."""
        if wanted in self._kept:
            return self._kept[wanted]
        for t in range(first, wanted):
            X = self._network.advance(t, X)
        return X


class _Passed:
    """The gradient of the columns that a learned hop made, of all nodes, as it adds up."""

    def __init__(self, total: torch.Tensor, widths: Sequence[int]) -> None:
        self._total, self._widths = total, widths

    @classmethod
    def build(cls, X: Representation) -> _Passed:
        """Return zeros for all blocks of a representation but the last, which are the raw features."""
        assert isinstance(X, JoinedRows)
        widths = [part.shape[1] for part in X.parts[:-1]]
        return cls(torch.zeros(X.shape[0], sum(widths), dtype=X.dtype, device=X.device), widths)

    def add(self, ids: torch.Tensor, rows: torch.Tensor) -> None:
        """Add the gradient of some rows."""
        assert rows.grad is not None
        self._total.index_add_(0, ids, rows.grad[:, : self._total.shape[1]])

    def to_hidden(self, walks: Sequence[Mixing]) -> torch.Tensor:
        """Return the gradient of the hidden layer that the blocks, itself and its means, were made of."""
        total, *means = self._total.split(list(self._widths), dim=1)
        for walk, of_mean in zip(walks, means, strict=True):
            total = total + walk.transposed(of_mean.contiguous())
        found: torch.Tensor = total
        return found
