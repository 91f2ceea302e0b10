"""Lockstep: the networks of some members, trained step by step together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch

from gbgnn._random import Purpose, as_uniform, draw, keys_of, mix_, places
from gbgnn.learners import MLP
from gbgnn.population.movers import has_triton, mover_of
from gbgnn.population.optimizer import Coefficients
from gbgnn.population.schedule import Plan

Layer = tuple[torch.Tensor, torch.Tensor]
"""Weights, shape (members, out, in), and biases, (members, out)."""

_UNITS_AT_ONCE = 2**26
"""Rows are evaluated in blocks that give about this many hidden units."""


@dataclass(frozen=True)
class Shape:
    """The sizes of networks that are trained together; a smaller member is padded with zeros.

    Parameters
    ----------
    n_members
        How many there is room for.
    n_rows, n_places
        Number of labelled rows, and of those that a step takes.
    n_columns, fan_in
        Columns that are trained on; the next column is constant, and those after it are zero. Weights are
        drawn as for ``fan_in`` columns.
    widths
        Columns of the rows, units of every hidden layer, outputs.
    n_steps
        The most steps of a member.
    is_batched
        Whether a step takes some of the rows only.
    is_shared
        Whether all members have the same rows.
    has_dropout
        Whether some member silences units.
    is_regression
        Whether targets are numbers, those of every member its own, rather than classes.
    """

    n_members: int
    n_rows: int
    n_places: int
    n_columns: int
    fan_in: int
    widths: tuple[int, ...]
    n_steps: int
    is_batched: bool
    is_shared: bool
    has_dropout: bool
    is_regression: bool

    @property
    def n_hidden(self) -> int:
        """Number of hidden layers."""
        return len(self.widths) - 2

    @property
    def later_sizes(self) -> list[tuple[int, int]]:
        """Outputs and inputs of every layer but the first."""
        return [(n_out, n_in) for n_in, n_out in pairwise(self.widths[1:])]


class Lockstep:
    """Weights, gradients and all that a step reads or writes, in memory that never moves.

    The weights of the constant column are the first layer's bias. Units that a narrower member does not have
    start at zero, get no gradient, and stay there.

    Parameters
    ----------
    shape
        The sizes.
    kinds
        The optimisers there are.
    like
        Decides precision and device.
    """

    def __init__(self, shape: Shape, kinds: frozenset[str], like: torch.Tensor) -> None:
        self.shape, new, device = shape, like.new_zeros, like.device
        m, n, (width, first, *_) = shape.n_members, shape.n_rows, shape.widths
        self.weight, self.slope = new(m, first, width), new(m, first, width)
        n_later = sum(n_out * n_in + n_out for n_out, n_in in shape.later_sizes)
        self.later, self.later_slope = new(m, n_later), new(m, n_later)
        self.layers, self.slopes = self._layers(self.later), self._layers(self.later_slope)
        moved = [(self.weight.flatten(1), self.slope.flatten(1)), (self.later, self.later_slope)]
        self.mover = mover_of(moved[: len(shape.widths) - 1], kinds, shape.n_steps)
        self._has_kernels = has_triton(device)
        self.step_number = torch.zeros(1, dtype=torch.int64, device=device)
        # One row more than there are, for places that no row takes.
        self.rows = new(n + 1, width) if shape.is_shared else new(m, n + 1, width)
        self.targets = new(m if shape.is_regression else 1, n + 1, shape.widths[-1])
        self.importance, self.scales = new(m, n + 1), new(m, shape.n_steps)
        self.row_starts = torch.arange(m, device=device)[:, None] * (n + 1)
        n_chosen = (shape.n_steps, shape.n_places) if shape.is_batched else (0, 0)
        self.chosen = torch.zeros(m, *n_chosen, dtype=torch.int64, device=device)
        self.places = places(torch.arange(n + 1, device=device), first)
        sizes = [(first, shape.n_columns), *shape.later_sizes]
        self._weight_places = [
            places(torch.arange(n_in, device=device), n_out).T.contiguous() for n_out, n_in in sizes
        ]
        self.keys = torch.zeros(m, shape.n_steps, max(1, shape.n_hidden), dtype=torch.int32, device=device)
        self.cut_offs, self.kept = torch.zeros(m, 1, 1, dtype=torch.int32, device=device), new(m, 1, 1)
        # Room for what a step computes: fresh memory would cost more than the computation.
        n_units = m * shape.n_places * first
        self._hidden, self._errors = ([new(n_units) for _ in range(shape.n_hidden)] for _ in range(2))
        self._draws = [torch.zeros(n_units, dtype=torch.int32, device=device) for _ in range(2)]
        self._taken_rows = new(m * shape.n_places if shape.is_batched else 0, width)

    def _layers(self, flat: torch.Tensor) -> list[Layer]:
        """Return the layers but the first as views of one array."""
        sizes = [size for n_out, n_in in self.shape.later_sizes for size in (n_out * n_in, n_out)]
        parts = iter(flat.split(sizes, dim=1) if sizes else ())
        return [(next(parts).unflatten(1, size), next(parts)) for size in self.shape.later_sizes]

    def load(
        self,
        learners: Sequence[MLP],
        plan: Plan,
        coefficients: Coefficients,
        seeds: torch.Tensor,
        rows: torch.Tensor,
        targets: torch.Tensor,
        importance: torch.Tensor,
    ) -> None:
        """Begin anew with some members, of which those with more steps come first.

        Parameters
        ----------
        learners, plan, coefficients, seeds
            How each is trained, and where it draws from.
        rows
            Labelled rows, ready to be trained on, shape (rows, width) or (members, rows, width).
        targets
            One-hot classes, shape (1, rows, outputs), or numbers, (members, rows, outputs).
        importance
            Of every row for every member.
        """
        shape, m, n = self.shape, len(seeds), self.shape.n_rows
        self._draw_weights(plan, seeds)
        self.mover.load(learners, coefficients, plan.n_steps)
        self.step_number.zero_()
        (self.rows if shape.is_shared else self.rows[:m])[..., :n, :] = rows
        self.targets[: len(targets), :n] = targets
        self.importance[:m, :n] = importance
        self.kept[:m, 0, 0] = 1 / (1 - plan.dropout)
        if shape.has_dropout:
            self.cut_offs[:m, 0, 0] = plan.cut_off
            self.keys[:m] = plan.dropout_keys(seeds, shape.n_steps, shape.n_hidden)
        if shape.is_batched:
            n_epochs = max(1, *(learner.epochs for learner in learners))
            found = plan.chosen_rows(seeds, shape.n_steps, shape.n_places, n_epochs)
            self.chosen[:m], self.scales[:m] = found

    def _draw_weights(self, plan: Plan, seeds: torch.Tensor) -> None:
        """Draw what :class:`~gbgnn.learners.network.Network` draws, and zeros for absent units."""
        m, n_columns = len(seeds), self.shape.n_columns
        self.weight.zero_()
        first = (self.weight[:m, :, :n_columns], self.weight[:m, :, n_columns])
        layers = [first, *((weight[:m], bias[:m]) for weight, bias in self.layers)]
        n_inputs = torch.full_like(plan.units, n_columns)
        fan_in = torch.full_like(plan.units, self.shape.fan_in)
        for depth, (weight, bias) in enumerate(layers):
            n_out, n_in = weight.shape[1:]
            row, unit = (torch.arange(size, device=seeds.device) for size in (n_in, n_out))
            fan_out = plan.units if depth < self.shape.n_hidden else torch.full_like(fan_in, n_out)
            spread = (2 / fan_in.double().sqrt()).to(weight.dtype)[:, None, None]
            is_there = unit[:, None] < fan_out[:, None, None]
            tables = (
                Purpose.WEIGHTS,
                weight,
                self._weight_places[depth],
                is_there & (row < n_inputs[:, None, None]),
            )
            biases = (Purpose.BIASES, bias[..., None], self._weight_places[depth][:, :1], is_there)
            for purpose, values, table, mask in (tables, biases):
                draws = draw(table, keys_of(seeds, purpose, depth)[:, None, None])
                values.copy_(as_uniform(draws, weight.dtype).sub_(0.5).mul_(spread).mul_(mask))
            fan_in = n_inputs = fan_out

    def step(self, m: int, n_places: int) -> None:
        """Take a step of the first ``m`` members, none of which has more than ``n_places`` rows."""
        now, shape, chosen = self.step_number, self.shape, None
        if shape.is_batched:
            chosen = self.chosen[:m, :, :n_places].index_select(1, now)[:, 0]
            rows = self._taken(self.rows, chosen, out=self._taken_rows[: chosen.numel()])
            targets = self._taken(self.targets, chosen)
            importance = self.importance[:m].gather(1, chosen) * self.scales[:m].index_select(1, now)
        else:
            rows = self.rows[: shape.n_rows] if shape.is_shared else self.rows[:m, : shape.n_rows]
            targets, importance = self.targets[:m, : shape.n_rows], self.importance[:m, : shape.n_rows]
        hidden = [self._room(flat, m, n_places, depth) for depth, flat in enumerate(self._hidden)]
        output = self._first_layer(rows, m, *hidden[:1])
        for depth in range(shape.n_hidden):
            output = self._layer(depth, self._silenced_(hidden[depth], chosen, depth), *hidden[depth + 1 :])
        # Classes before rows: beside few classes, a softmax is 15 times as fast that way.
        output, targets = output.transpose(1, 2), targets.transpose(1, 2)
        error = output.sub_(targets).mul_(2) if shape.is_regression else output.softmax(1).sub_(targets)
        self._backward(rows, hidden, error.mul_(importance[:, None]).transpose(1, 2))
        self.mover.step(m, now)
        now.add_(1)

    def outputs(self, rows: torch.Tensor, m: int) -> torch.Tensor:
        """Return the outputs of the first ``m`` members, shape (members, rows, outputs), block by block."""
        n_rows = max(1, _UNITS_AT_ONCE // (m * self.shape.widths[1]))
        return torch.cat([self._outputs(block, m) for block in rows.split(n_rows, dim=-2)], dim=1)

    def _outputs(self, rows: torch.Tensor, m: int) -> torch.Tensor:
        output = self._first_layer(rows, m)
        for depth in range(self.shape.n_hidden):
            output = self._layer(depth, output.relu_())
        return output

    def _taken(
        self, values: torch.Tensor, chosen: torch.Tensor, out: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the chosen rows, shape (members, places, columns), of what members share or each has."""
        is_shared = values.ndim == 2 or len(values) < len(self.row_starts)
        index = chosen if is_shared else chosen + self.row_starts[: len(chosen)]
        flat = values.view(-1, values.shape[-1])
        return torch.index_select(flat, 0, index.flatten(), out=out).view(*chosen.shape, -1)

    def _room(self, flat: torch.Tensor, m: int, n_places: int, depth: int) -> torch.Tensor:
        """Return room for the units of a hidden layer, shape (members, places, units).

        In memory, places come first where the first layer is one product for all members.
        """
        shape, n_units = self.shape, self.shape.widths[1]
        flat = flat[: m * n_places * n_units]
        if depth == 0 and shape.is_shared and not shape.is_batched:
            return flat.view(n_places, m, n_units).transpose(0, 1)
        return flat.view(m, n_places, n_units)

    def _first_layer(self, rows: torch.Tensor, m: int, out: torch.Tensor | None = None) -> torch.Tensor:
        weight = self.weight[:m]
        if rows.ndim == 3:
            return torch.bmm(rows, weight.transpose(1, 2), out=out)
        stacked = None if out is None else out.transpose(0, 1).flatten(1)
        stacked = torch.mm(rows, weight.flatten(0, 1).T, out=stacked)
        return stacked.view(len(rows), m, -1).transpose(0, 1)

    def _layer(self, depth: int, hidden: torch.Tensor, *later: torch.Tensor) -> torch.Tensor:
        """Return what a hidden layer's units are made into, shape (members, rows, out)."""
        (weight, bias), m = self.layers[depth], len(hidden)
        if depth < self.shape.n_hidden - 1:
            out = later[0] if later else None
            return torch.baddbmm(bias[:m, None], hidden, weight[:m].transpose(1, 2), out=out)
        # In memory, rows come last.
        return torch.baddbmm(bias[:m, :, None], weight[:m], hidden.transpose(1, 2)).transpose(1, 2)

    def _silenced_(self, output: torch.Tensor, chosen: torch.Tensor | None, depth: int) -> torch.Tensor:
        """Apply ReLU and the masks of :class:`~gbgnn.learners.epochs.Dropout`, in place."""
        m, n_places, _ = output.shape
        if not self.shape.has_dropout:
            return output.relu_()
        if self._has_kernels:
            from gbgnn.population import kernels

            tables = (None if chosen is None else self.chosen, self.keys, self.cut_offs, self.kept)
            kernels.silence(output, *tables, self.step_number, depth)
            return output
        table = self.places[:-1] if chosen is None else self._taken(self.places, chosen)
        key = self.keys[:m, :, depth].index_select(1, self.step_number)[..., None]
        draws, scratch = (self._room(flat, m, n_places, depth) for flat in self._draws)
        mix_(torch.add(table, key, out=draws), scratch)
        return output.relu_().mul_(draws.ge_(self.cut_offs[:m])).mul_(self.kept[:m])

    def _backward(self, rows: torch.Tensor, hidden: list[torch.Tensor], error: torch.Tensor) -> None:
        """Leave the gradient in the slopes; the chain rule of the learners' own network, for all members."""
        m, n_places, _ = error.shape
        for depth in reversed(range(len(hidden))):
            units, (weight, _), (slope, bias_slope) = hidden[depth], self.layers[depth], self.slopes[depth]
            torch.bmm(error.transpose(1, 2), units, out=slope[:m])
            torch.sum(error, dim=1, out=bias_slope[:m])
            error = torch.bmm(error, weight[:m], out=self._room(self._errors[depth], m, n_places, depth))
            # 0 where a unit is off or silenced.
            torch.ops.aten.threshold_backward.grad_input(error, units, 0, grad_input=error)
            if self.shape.has_dropout:
                error.mul_(self.kept[:m])
        if rows.ndim == 2:
            stacked = error.transpose(0, 1).reshape(len(rows), -1)
            torch.mm(stacked.T, rows, out=self.slope[:m].flatten(0, 1))
        else:
            torch.bmm(error.transpose(1, 2), rows, out=self.slope[:m])
