"""MultiScaleNetwork: a boosted model as one function of all its parameters, with its gradient."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple, final

import torch
from torch.func import functional_call, vmap

from gbgnn.boosting import Ensemble, Round, Voting
from gbgnn.finetuning.base import AGGREGATION, ETAS, LEARNERS, Positions, TunedNetwork, too_small
from gbgnn.finetuning.representations import FineTunedHops, FixedHops, dense_columns, make_differentiable
from gbgnn.learners import Head
from gbgnn.problem import NodeInputs


@final
class MultiScaleNetwork(TunedNetwork):
    r"""The scores of the labelled nodes as a function of heads, steps and the hops' numbers.

    Only the rows of representations that belong to labelled and validation nodes are formed, a few nodes at
    a time; the loss is a sum over nodes, so its gradient is added up. All rounds see equally many columns.
    ``is_batched`` says whether :meth:`accumulate` will be asked for scattered nodes.
    """

    def __init__(self, *parts: Any, is_batched: bool = False, **options: Any) -> None:
        super().__init__(*parts, **options)
        self._is_batched, ensemble, moves = is_batched, self.ensemble, self.moves
        hops = [trained.hop for trained in ensemble]
        self.hops: FineTunedHops = FixedHops(hops)
        if AGGREGATION in moves:
            self.hops = make_differentiable(hops, self._inputs)
        self._check_moves(has_free_hops=bool(self.hops.thetas))
        self._plan_terms()
        self.heads = self._build_heads()

    @property
    def work(self) -> int:
        """Multiply-adds of the largest products of a gradient."""
        return len(self._rows) * sum(value.numel() for value in self.heads.parameters())

    def parameters(self) -> dict[str, list[torch.Tensor]]:
        """Return the parameters that are fine-tuned, by kind."""
        kinds = {
            LEARNERS: self.heads.parameters(),
            ETAS: [self.etas],
            AGGREGATION: [theta for theta in self.hops.thetas if len(theta)],
        }
        return {kind: kinds[kind] for kind in self.moves if kinds[kind]}

    def accumulate(self, positions: Positions, scale: float = 1.0) -> float:
        """Add the gradient of ``scale`` times the weighted loss to all parameters; return that loss."""
        total = 0.0
        coefficients = self.hops.coefficients(self.n_terms)
        # The gradients of a few nodes at a time add up in a leaf, and go on to the hops' parameters once.
        leaf = coefficients.detach().requires_grad_(coefficients.requires_grad)
        for part, X in self._parts(positions, leaf):
            values = self.loss.values(self._scores(X, self.voting).double(), self._targets[part])
            loss = scale * (values * self._weights[part]).sum()
            loss.backward()
            total += float(loss.detach())
        if leaf.grad is not None:
            coefficients.backward(leaf.grad)
        return total

    @torch.no_grad()
    def scores(self, positions: Positions, voting: Voting) -> torch.Tensor:
        """Return the scores of some nodes under ``voting``: the soft one, or the one of boosting."""
        parts = self._parts(positions, self.hops.coefficients(self.n_terms))
        return torch.cat([self._scores(X, voting) for _, X in parts])

    def project(self) -> None:
        """Move the hops' numbers to the nearest values that they may have."""
        self.hops.project()

    def after_epoch(self) -> None:
        """Compute other terms where the hops have come to need them."""
        if self.hops.needs_other_terms(self.n_terms):
            self._plan_terms()

    @torch.no_grad()
    def rebuild(self) -> Ensemble:
        """Return the model as it is now, in ordinary rounds."""
        heads = self.heads.rebuild() if LEARNERS in self.moves else self._boosted_heads
        rounds = zip(self.ensemble, self.hops.hops(), heads, self.etas.tolist(), strict=True)
        return Ensemble(tuple(Round(old.t, hop, head, eta) for old, hop, head, eta in rounds))

    def _scores(self, X: torch.Tensor, voting: Voting) -> torch.Tensor:
        output = self.heads(X)
        votes = voting.direction(output.flatten(0, 1)).unflatten(0, output.shape[:2])
        scores: torch.Tensor = torch.tensordot(self.etas.to(X.dtype), votes, 1)
        return scores

    def _parts(
        self, positions: Positions, coefficients: torch.Tensor
    ) -> Iterator[tuple[Positions, torch.Tensor]]:
        """Yield positions, few enough to work with at once, and the (T, n, C) representations there."""
        parts: Sequence[Positions]
        if isinstance(positions, torch.Tensor):
            parts = positions.split(self.plan.n_rows)
        else:
            starts = range(positions.start, positions.stop, self.plan.n_rows)
            parts = [slice(start, min(start + self.plan.n_rows, positions.stop)) for start in starts]
        for part in parts:
            rows = self._rows[part]
            terms = self._compute_terms(rows) if self._held is None else self._held[:, part]
            yield part, self.hops.mix(coefficients, terms, rows, self.plan.n_columns)

    def _plan_terms(self) -> None:
        """Share the memory out; compute and hold the terms of all rows where they have room."""
        self._held: torch.Tensor | None = None  # before new terms take the room of old ones
        self.n_terms = self.hops.n_terms()
        n_nodes, n_columns = self._inputs.features.shape
        size = self._inputs.dtype.itemsize
        weights = [value for head in self._boosted_heads for value in head.parameters()]
        activations = 4 * sum(value.shape[0] for value in weights)  # of a layer, weights and biases count it
        # The representations, their gradients round by round, and these put together.
        mixed = 3 * len(self.ensemble) * n_columns if self.hops.thetas else 0
        self.plan = plan_memory(
            self._limit,
            # The copy, its raw form, their gradients, two averages of the optimiser, the best so far.
            fixed=7 * sum(value.nbytes for value in weights) + self.hops.nbytes,
            column=self.hops.n_arrays * n_nodes * size,
            n_columns=n_columns,
            terms=self.n_terms * n_columns * size,
            work=size * (activations + mixed),
            copy=self.n_terms * n_columns * size if self._is_batched else 0,
            n_rows=len(self._rows),
            is_divisible=self.hops.is_divisible,
            can_hold=self.hops.is_fixed,
        )
        if self.plan.is_held:
            self._held = self._compute_terms(self._rows)

    def _compute_terms(self, rows: torch.Tensor) -> torch.Tensor:
        """Return the terms of some nodes, shape (n_terms, n, C), computed a few columns at a time."""
        features, P, width = self._inputs.features, self._inputs.P, self.plan.n_columns
        shape = self.n_terms, len(rows), features.shape[1]
        result = torch.empty(shape, dtype=features.dtype, device=features.device)
        for start in range(0, features.shape[1], width):
            columns = slice(start, start + width)
            block = NodeInputs.from_tensor(dense_columns(features, columns), P)
            for k, term in enumerate(self.hops.stream(block, self.n_terms)):
                result[k, :, columns] = term[rows]
        return result

    @torch.no_grad()
    def _build_heads(self) -> FineTunedHeads:
        """Standardise the inputs of every head by the labelled rows, in double precision."""
        sums = squares = self.etas.new_zeros(())
        for _, X in self._parts(self.train, self.hops.coefficients(self.n_terms)):
            sums = sums + X.sum(dim=1, dtype=torch.float64)
            squares = squares + X.square().sum(dim=2).sum(dim=1, dtype=torch.float64)  # row by row
        n_rows = self.train.stop
        centres = sums / n_rows
        sizes = (squares / n_rows - centres.square().sum(dim=1)).clamp_min(0).sqrt()
        sizes = torch.where(sizes > 0, sizes, 1.0)
        dtype = self._inputs.dtype
        tuned = FineTunedHeads(self._boosted_heads, centres.to(dtype), sizes.to(dtype))
        for value in tuned.parameters():
            value.requires_grad_(LEARNERS in self.moves)
        return tuned


class MemoryPlan(NamedTuple):
    """Whether the terms of all nodes are held, and how many columns and nodes are treated at once."""

    is_held: bool
    n_columns: int
    n_rows: int


def plan_memory(
    limit: int,
    *,
    fixed: int,  # parameters, their gradients and what the optimiser remembers
    column: int,  # to multiply one column of all nodes by P
    n_columns: int,  # columns there are
    terms: int,  # the terms of one node
    work: int,  # all else that is computed of one node before the next gradient
    copy: int,  # to pick one node's terms out of those of all; 0 where nodes come in order
    n_rows: int,  # nodes whose terms are wanted
    is_divisible: bool = True,  # whether columns may be treated one after the other
    can_hold: bool = True,  # whether terms may be held: they stay the same
) -> MemoryPlan:
    """Share ``limit`` bytes out.

    Terms that fit are computed once and held. Otherwise those of as many nodes as possible are computed,
    used and forgotten, time and again; the products with P then get a quarter of the room, because narrow
    blocks of columns take hardly longer than wide ones.
    """
    least = 1 if is_divisible else n_columns
    room = limit - fixed
    beside = room - n_rows * terms
    if can_hold and beside >= max(least * column, work + copy):
        width = min(n_columns, max(least, beside // column))
        return MemoryPlan(True, width, min(n_rows, beside // (work + copy)))
    width = min(n_columns, max(least, min(room // 4, room - terms - work) // column))
    n_at_once = (room - width * column) // (terms + work)
    if n_at_once < 1:
        needed = fixed + least * column + terms + work
        raise too_small(needed, limit)
    return MemoryPlan(False, width, min(n_rows, n_at_once))


class HeadStack:
    r"""Heads of one kind and shape whose parameters can be moved, a stack for each name.

    Heads are evaluated together: a round is so small that on a GPU starting its kernels would take most of
    the time. Their :attr:`~gbgnn.learners.Head.first_layer` is moved as a function of standardised inputs,
    :math:`(x - m) / s`, as that of an MLP was trained: deep representations differ little beside what they
    have in common, and a step in the raw weights, which are large there, would change the common part only.
    Heads that name no such layer are moved in their own parameters. ``centres`` and ``sizes`` are m and s of
    every head, of the rows that it is fine-tuned on; the heads themselves stay as they are.
    """

    def __init__(self, heads: Sequence[Head], centres: torch.Tensor, sizes: torch.Tensor) -> None:
        self.heads, self.centres, self.sizes = list(heads), centres[:, :, None], sizes[:, None, None]
        named = [dict(head.named_parameters()) for head in heads]
        self.parameters = {name: torch.stack([own[name].detach() for own in named]) for name in named[0]}
        if heads[0].first_layer is not None:
            weight, bias = (self.parameters[name] for name in heads[0].first_layer)
            bias += (weight @ self.centres).squeeze(2)
            weight *= self.sizes
        for value in self.parameters.values():
            value.requires_grad_()

    def raw(self) -> dict[str, torch.Tensor]:
        """Return the parameters for raw inputs; differentiable."""
        first_layer = self.heads[0].first_layer
        if first_layer is None:
            return self.parameters
        of_weight, of_bias = first_layer
        weight = self.parameters[of_weight] / self.sizes
        bias = self.parameters[of_bias] - (weight @ self.centres).squeeze(2)
        return self.parameters | {of_weight: weight, of_bias: bias}

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        """Return the outputs of every head for its own rows, shape (n_heads, n_rows, n_outputs)."""
        output: torch.Tensor = vmap(partial(functional_call, self.heads[0]))(self.raw(), X)
        return output

    @torch.no_grad()
    def rebuild(self) -> list[Head]:
        """Return ordinary heads with the parameters of now."""
        raw, rebuilt = self.raw(), []
        for i, head in enumerate(self.heads):
            state = head.state() | {name: value[i].clone() for name, value in raw.items()}
            rebuilt.append(type(head).from_state(state).requires_grad_(False))
        return rebuilt


class FineTunedHeads:
    """The heads of all rounds, stacked where they are alike."""

    def __init__(self, heads: Sequence[Head], centres: torch.Tensor, sizes: torch.Tensor) -> None:
        alike: dict[object, list[int]] = {}
        for place, head in enumerate(heads):
            kind = type(head), tuple((name, value.shape) for name, value in head.state().items())
            alike.setdefault(kind, []).append(place)
        self.places = list(alike.values())
        self.stacks = [HeadStack([heads[i] for i in own], centres[own], sizes[own]) for own in self.places]
        self._order = torch.tensor([i for own in self.places for i in own], device=centres.device).argsort()

    def parameters(self) -> list[torch.Tensor]:
        """Return the parameters of all heads."""
        return [value for stack in self.stacks for value in stack.parameters.values()]

    def __call__(self, X: torch.Tensor) -> torch.Tensor:
        """Return the outputs of every round's head for its own rows, shape (T, n_rows, n_outputs)."""
        if len(self.stacks) == 1:
            return self.stacks[0](X)
        parts = [stack(X[own]) for stack, own in zip(self.stacks, self.places, strict=True)]
        return torch.cat(parts)[self._order]

    def rebuild(self) -> list[Head]:
        """Return ordinary heads with the parameters of now, round by round."""
        rebuilt = [head for stack in self.stacks for head in stack.rebuild()]
        return [rebuilt[i] for i in self._order.tolist()]
