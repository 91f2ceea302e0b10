"""BatchedMLP: small ReLU networks of one or several members, and what moves them, step by step together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import torch
from torch.nn.functional import layer_norm

from gbgnn._optimizers import Coefficients, Moments, Stepper
from gbgnn._random import hash_grid, mix_
from gbgnn.learners.schedule import Initialization, Keys, Schedule, Shape
from gbgnn.losses import Loss

Layer = tuple[torch.Tensor, torch.Tensor]
"""Weights, shape (members, out, in), and biases, (members, out)."""

NORM_FLOOR = 1e-5
"""Added to the variance of a row of hidden units before it is divided by its root."""

_MOST_PLACES = 2**22
"""Up to so many hidden units of all rows, their hashes and an epoch's dropout are computed once."""

Pair = tuple[torch.Tensor, torch.Tensor]
"""Parameters and their gradients, shape (members, n)."""


def _pick(values: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
    """Return ``values[chosen]``, which takes several times as long."""
    return values.index_select(0, chosen.flatten()).view(*chosen.shape, *values.shape[1:])


@dataclass(frozen=True, eq=False)
class Views:
    """What a step of some members on some rows reads and writes, cut once: that takes as long as a product.

    One member alone on a CPU has no axis of members. Where all take the same rows, their first layers are
    one product for all, and ``first``, weights, gradient, room for units and for their errors, is of two
    dimensions: first layers are stacked, and places come first.
    """

    is_alone: bool
    is_stacked: bool
    rows: torch.Tensor
    targets: torch.Tensor
    sample_weights: torch.Tensor
    offsets: torch.Tensor | None
    chosen: torch.Tensor | None
    scales: torch.Tensor
    kept: torch.Tensor
    first: Sequence[torch.Tensor]
    layers: Sequence[Layer]
    gradients: Sequence[Layer]
    hidden: Sequence[torch.Tensor]
    normed: Sequence[torch.Tensor]
    errors: Sequence[torch.Tensor]
    draws: Sequence[Sequence[torch.Tensor]]

    @cached_property
    def product(self) -> Any:
        """What multiplies a matrix of each member with another."""
        return torch.mm if self.is_alone else torch.bmm

    @cached_property
    def add_product(self) -> Any:
        """What adds such a product to another matrix."""
        return torch.addmm if self.is_alone else torch.baddbmm

    @cached_property
    def first_product(self) -> Any:
        """What multiplies the first layers."""
        return torch.mm if self.is_stacked else self.product


class BatchedMLP:
    """Weights, gradients and all that a step reads or writes, in memory that never moves.

    Rows have a constant column after their own, whose weights are the first layer's bias. Units that a
    narrower member does not have start at zero, get no gradient, and stay there. The gradient is written out:
    autograd's bookkeeping costs as much as the arithmetic of so small a network; a test holds it to autograd.
    Networks whose hidden layers are normalised have one width, because padding would count.
    ``like`` decides precision and device.
    """

    def __init__(self, shape: Shape, loss: Loss, like: torch.Tensor) -> None:
        self.shape, self._loss, new, device = shape, loss, like.new_zeros, like.device
        m, n, (width, first, *_) = shape.n_members, shape.n_rows, shape.widths
        # One array for one member, so that a step is one pass; of several, first layers lie side by side.
        n_first, *n_later = shape.n_parameters
        n_values = [n_first + sum(n_later)] if m == 1 or not n_later else [n_first, sum(n_later)]
        self.parameters, gradients = ([new(m, size) for size in n_values] for _ in range(2))
        self.weight, self.later_layers = self._split_layers(self.parameters)
        self.gradient, self._gradients = self._split_layers(gradients)
        moved = list(zip(self.parameters, gradients, strict=True))
        self._optimizer: OneByOne | AllAtOnce = (  # what is fastest on the device
            OneByOne(moved) if device.type == "cpu" else AllAtOnce(moved, shape.kinds, shape.n_steps)
        )
        self._kernels = load_kernels(device)
        # On a GPU a step is recorded once, and must find its number there.
        self._step_number = torch.zeros(1, dtype=torch.int64, device=device)
        self._step_on_host = 0 if device.type == "cpu" else None
        self._n_batches, self._masks, self._masked = 1, torch.empty(0), range(0)
        # One row more than there are, for places that no row takes.
        self._rows = new(n + 1, width) if shape.is_shared else new(m, n + 1, width)
        self._rows[..., :n, shape.n_columns] = 1
        self._targets: torch.Tensor | None = None
        self._offsets: torch.Tensor | None = None
        self._sample_weights, self._scales = new(m, n + 1), new(m, shape.n_steps)
        self._row_starts = torch.arange(m, device=device)[:, None] * (n + 1)
        n_chosen = (shape.n_steps, shape.n_places) if shape.is_batched else (0, 0)
        self._chosen = torch.zeros(m, *n_chosen, dtype=torch.int64, device=device)
        # Of many rows, only those of a step are hashed.
        is_long = shape.is_batched and n * first > _MOST_PLACES
        self._places = None if is_long else hash_grid(torch.arange(n + 1, device=device), first)
        self._start, self._spreads = Initialization.build(shape, device), new(0)
        self._loaded: Schedule | None = None
        self._keys = torch.zeros(m, shape.n_steps, max(1, shape.n_hidden), dtype=torch.int32, device=device)
        self._thresholds = torch.zeros(m, 1, 1, dtype=torch.int32, device=device)
        self._kept = new(m, 1, 1)
        # Room for what a step computes: fresh memory would cost more than the computation.
        n_units, n_rooms = m * shape.n_places * first, max(1, shape.n_hidden)
        self._hidden, self._errors = ([new(n_units) for _ in range(n_rooms)] for _ in range(2))
        self._normed = [new(n_units) for _ in range(n_rooms if shape.is_normed else 0)]
        self._inverses: dict[int, torch.Tensor] = {}  # of the deviations that hidden rows had
        n_draws = n_units if shape.has_dropout else 0
        self._draws = [torch.zeros(n_draws, dtype=torch.int32, device=device) for _ in range(2)]
        self._views: dict[tuple[int, int], Views] = {}
        self._taken_rows = new(m * shape.n_places if shape.is_batched else 0, width)

    def _split_layers(self, arrays: list[torch.Tensor]) -> tuple[torch.Tensor, list[Layer]]:
        """Return the first layer, whose last columns are its bias and padding, and the others, as views."""
        sizes, last = self.shape.n_parameters, len(arrays) - 1
        split: Sequence[torch.Tensor] = arrays[last].split(sizes[last:], dim=1)
        first, *parts = [*arrays[:last], *split]
        pairs = zip(parts[::2], parts[1::2], self.shape.later_sizes, strict=True)
        later = [(weight.unflatten(1, size), bias) for weight, bias, size in pairs]
        return first.unflatten(1, (self.shape.widths[1], -1)), later

    def layers(self, m: int, *, copy: bool = False) -> list[Layer]:
        """Return weights and biases of the first ``m`` members: views, or copies that no step changes."""
        weight, later = self._split_layers(
            [each[:m].clone() if copy else each[:m] for each in self.parameters]
        )
        n = self.shape.n_columns
        return [(weight[..., :n], weight[..., n]), *later]

    def load(
        self,
        schedule: Schedule,
        keys: Keys,
        rows: torch.Tensor,
        targets: torch.Tensor,
        sample_weights: torch.Tensor,
        offsets: torch.Tensor | None = None,
    ) -> None:
        """Begin anew with some members, of which those with more steps come first.

        Labelled rows are of all, shape (rows, columns), or of each, (members, rows, columns); targets are
        classes, (rows,), or numbers, (members, rows, outputs); sample weights, of every row for every member;
        offsets, (members, rows, outputs), are added to the outputs, always or never.
        """
        shape, m, n = self.shape, len(keys.weights), self.shape.n_rows
        if schedule is not self._loaded:
            self._loaded = schedule
            self._spreads = self._start.find_spreads(schedule, self.weight.dtype)
            self._kept[:m, 0, 0] = 1 / (1 - schedule.dropout)
            self._thresholds[:m, 0, 0] = schedule.threshold
        is_padded = any(own.units < shape.units for own in schedule.settings)
        drawn = self._start.draw(keys.weights, self._spreads, schedule.units if is_padded else None)
        sizes = [each.shape[1] for each in self.parameters]
        for each, part in zip(self.parameters, drawn.split(sizes, dim=1), strict=True):
            each[:m] = part
        self._optimizer.load(schedule)
        self._step_number.zero_()
        self._step_on_host = None if self._step_on_host is None else 0
        self._n_batches, self._masked = -(-n // (schedule.settings[0].batch_size or n)), range(0)
        room = self._rows if shape.is_shared else self._rows[:m]
        room[..., :n, : shape.n_columns] = rows
        self._load_targets(self._loss.encode(targets, shape.n_outputs, self.weight.dtype))
        self._sample_weights[:m, :n] = sample_weights
        if offsets is not None:
            if self._offsets is None:
                self._offsets = self._sample_weights.new_zeros(shape.n_members, n + 1, shape.n_outputs)
            self._offsets[:m, :n] = offsets
        if shape.has_dropout:
            self._keys[:m] = keys.dropout
        if shape.is_batched:
            found = schedule.chosen_rows(keys.orders, shape.n_steps, shape.n_places)
            self._chosen[:m], self._scales[:m] = found

    def _load_targets(self, encoded: torch.Tensor) -> None:
        """Copy targets, of all members or of each, to where they stay."""
        n, is_shared = self.shape.n_rows, encoded.ndim < 3
        if self._targets is None:
            front = () if is_shared else (self.shape.n_members,)
            self._targets = encoded.new_zeros(*front, n + 1, *encoded.shape[len(front) + 1 :])
        if is_shared:
            self._targets[:n] = encoded
        else:
            self._targets[: len(encoded), :n] = encoded

    def step(self, m: int, n_places: int) -> None:
        """Take a step of the first ``m`` members, none of which has more than ``n_places`` rows."""
        self.backward(m, n_places)
        self._optimizer.step(m, self._step_number)
        if self._step_on_host is None:
            self._step_number.add_(1)
        else:
            self._step_on_host += 1

    def backward(self, m: int, n_places: int) -> None:
        """Leave the gradient of the next step: forward with dropout, then the chain rule."""
        if (m, n_places) not in self._views:
            self._views[m, n_places] = self._cut_views(m, n_places)
        view, chosen = self._views[m, n_places], None
        rows, targets, weights = view.rows, view.targets, view.sample_weights
        if view.chosen is not None:
            chosen = self._now(view.chosen, view)
            rows = self._take(rows, chosen, out=self._taken_rows[: chosen.numel()])
            targets = self._take(targets, chosen) if targets.ndim == 3 else _pick(targets, chosen)
            weights = weights.gather(-1, chosen) * self._now(view.scales, view)[..., None]
        output = self._forward(view, rows, chosen)
        if view.offsets is not None:
            output = output + (view.offsets if chosen is None else self._take(view.offsets, chosen))
        error = self._loss.evaluate("error", output, targets).mul_(weights[..., None])
        self._backward(view, rows, error)

    def _cut_views(self, m: int, n_places: int) -> Views:
        """Return what a step of the first ``m`` members on so many rows works on."""
        shape, targets, is_alone = self.shape, self._targets, m == 1 and self._step_on_host is not None
        assert targets is not None, "load first"
        members: Any = 0 if is_alone else slice(m)
        is_stacked = shape.is_shared and not shape.is_batched
        n, width = (
            shape.n_rows + shape.is_batched,
            shape.widths[1],
        )  # a batch may take the row that is not there

        def split(flats: Sequence[torch.Tensor]) -> list[torch.Tensor]:
            whole = [flat[: m * n_places * width] for flat in flats]
            rooms = [flat.view(m, n_places, width)[members] for flat in whole]
            if is_stacked and not is_alone:  # places come first in memory
                rooms[:1] = [flat.view(n_places, m, width).transpose(0, 1) for flat in whole[:1]]
            return rooms

        hidden, errors = split(self._hidden), split(self._errors)
        first = [self.weight[members], self.gradient[members], hidden[0], errors[0]]
        if is_stacked and not is_alone:
            first = [each.flatten(0, 1) for each in first[:2]] + [
                each.transpose(0, 1).flatten(1) for each in first[2:]
            ]
        return Views(
            is_alone,
            is_stacked,
            rows=self._rows[:n] if shape.is_shared else self._rows[members, :n],
            targets=targets[members, :n] if targets.ndim == 3 else targets[:n],
            sample_weights=self._sample_weights[members, :n],
            offsets=None if self._offsets is None else self._offsets[members, :n],
            chosen=self._chosen[members, :, :n_places] if shape.is_batched else None,
            scales=self._scales[members],
            kept=self._kept[members],
            first=first,
            layers=[(weight[members], bias[members]) for weight, bias in self.later_layers],
            gradients=[(weight[members], bias[members]) for weight, bias in self._gradients],
            hidden=hidden,
            normed=split(self._normed),
            errors=errors,
            draws=[split([flat] * shape.n_hidden) if shape.has_dropout else [] for flat in self._draws],
        )

    def _now(self, table: torch.Tensor, view: Views) -> torch.Tensor:
        """Return what a table of shape (members, n_steps, ...) holds for this step."""
        if self._step_on_host is None:
            return table.index_select(1, self._step_number)[:, 0]
        return table[self._step_on_host] if view.is_alone else table[:, self._step_on_host]

    def _take(
        self, values: torch.Tensor, chosen: torch.Tensor, out: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Return the chosen rows, shape (members, places, columns), of what members share or each has."""
        index = chosen if values.ndim == 2 else chosen + self._row_starts[: chosen.shape[0]]
        flat = values.view(-1, values.shape[-1])
        return torch.index_select(flat, 0, index.flatten(), out=out).view(*chosen.shape, -1)

    def _forward(self, view: Views, rows: torch.Tensor, chosen: torch.Tensor | None) -> torch.Tensor:
        """Return the outputs, shape (members, places, outputs), and leave hidden units where they belong."""
        weight, _, room, _ = view.first
        view.first_product(rows, weight.mT, out=room)
        output = view.hidden[0]
        for depth, (weight, bias) in enumerate(view.layers):
            if self.shape.is_normed:
                self._normalize_(view, depth)
            units = self._relu_dropout_(view.hidden[depth], view, chosen, depth)
            if depth + 1 < len(view.hidden):
                output = view.add_product(bias[..., None, :], units, weight.mT, out=view.hidden[depth + 1])
            else:  # in memory, rows come last: losses work column by column
                output = view.add_product(bias[..., None], weight, units.mT).mT
        return output

    def _normalize_(self, view: Views, depth: int) -> None:
        """Standardise the rows of a hidden layer, in place, and keep what their gradient needs."""
        units = view.hidden[depth]
        units.sub_(units.mean(dim=-1, keepdim=True))
        self._inverses[depth] = units.square().mean(dim=-1, keepdim=True).add_(NORM_FLOOR).rsqrt_()
        view.normed[depth].copy_(units.mul_(self._inverses[depth]))

    def _normalize_gradient_(self, view: Views, depth: int) -> None:
        """Take errors of a hidden layer back through standardisation, in place."""
        error, normed = view.errors[depth], view.normed[depth]
        along = (error * normed).mean(dim=-1, keepdim=True)
        error.sub_(error.mean(dim=-1, keepdim=True)).sub_(normed * along).mul_(self._inverses[depth])

    def _relu_dropout_(
        self, units: torch.Tensor, view: Views, chosen: torch.Tensor | None, depth: int
    ) -> torch.Tensor:
        """Apply ReLU and dropout, in place."""
        if not self.shape.has_dropout:
            return units.relu_()
        if self._kernels is not None:
            tables = (None if chosen is None else self._chosen, self._keys, self._thresholds, self._kept)
            self._kernels.dropout(units, *tables, self._step_number, depth)
            return units
        if view.is_alone and self._places is not None:
            masks = self._draw_masks(self._places, depth)
            return units.relu_().mul_(masks[:-1] if chosen is None else masks[chosen])
        members: Any = 0 if view.is_alone else slice(len(units))
        draws, scratch = (each[depth] for each in view.draws)
        key = self._now(self._keys[members], view)[..., depth, None, None]
        mix_(torch.add(self._hash_places(chosen), key, out=draws), scratch)
        return units.relu_().mul_(draws.ge_(self._thresholds[members])).mul_(view.kept)

    def _hash_places(self, chosen: torch.Tensor | None) -> torch.Tensor:
        """Return the hashes of all places, or of those of chosen rows."""
        if self._places is None:
            assert chosen is not None
            return hash_grid(chosen.flatten(), self.shape.widths[1]).view(*chosen.shape, -1)
        return self._places[:-1] if chosen is None else self._take(self._places, chosen)

    def _draw_masks(self, places: torch.Tensor, depth: int) -> torch.Tensor:
        """Return what a hidden layer of one member is multiplied by in this epoch, shape (rows, units).

        Those of several epochs are drawn at once: for few numbers, calling takes longer than hashing.
        """
        epoch = (self._step_on_host or 0) // self._n_batches
        if epoch not in self._masked:
            keys = self._keys[0, :: self._n_batches]  # an epoch meets every row once
            n_numbers = self.shape.n_hidden * places.numel()
            last = min(len(keys), epoch + max(1, min(16, 2**16 // n_numbers)))
            draws = mix_(places + keys[epoch:last, :, None, None])
            self._masks = draws.ge_(self._thresholds[0]).to(self.weight.dtype).mul_(self._kept[0])
            self._masked = range(epoch, last)
        return self._masks[epoch - self._masked.start, depth]

    def _backward(self, view: Views, rows: torch.Tensor, error: torch.Tensor) -> None:
        """Leave the gradient, by the chain rule."""
        for depth in reversed(range(self.shape.n_hidden)):
            units, (weight, _), gradients = view.hidden[depth], view.layers[depth], view.gradients[depth]
            view.product(error.mT, units, out=gradients[0])
            torch.sum(error, dim=-2, out=gradients[1])
            error = view.product(error, weight, out=view.errors[depth])
            if self._kernels is not None and self.shape.has_dropout:
                self._kernels.dropout_gradient(error, units, self._kept)
            else:
                # 0 where a unit is off or dropped.
                torch.ops.aten.threshold_backward.grad_input(error, units, 0, grad_input=error)
                if self.shape.has_dropout:
                    error.mul_(view.kept)
            if self.shape.is_normed:
                self._normalize_gradient_(view, depth)
        if not self.shape.n_hidden:
            view.errors[0].copy_(error)
        _, gradient, _, stacked = view.first
        view.first_product(stacked.mT, rows, out=gradient)

    def outputs(self, rows: torch.Tensor, m: int) -> torch.Tensor:
        """Return the outputs of the first ``m`` members for rows of their own or of all, without dropout."""
        return apply_layers(self.layers(m), rows, is_normed=self.shape.is_normed)


def activate_(units: torch.Tensor, is_normed: bool) -> torch.Tensor:
    """Return what the next layer sees of hidden units, whose memory may be taken for it."""
    if is_normed:
        units = layer_norm(units, units.shape[-1:], eps=NORM_FLOOR)
    return units.relu_()


def apply_layers(layers: list[Layer], rows: torch.Tensor, *, is_normed: bool = False) -> torch.Tensor:
    """Return the outputs of networks, shape (members, rows, outputs), for rows of all or of each."""
    weight, bias = layers[0]
    if rows.ndim == 2:
        stacked = torch.addmm(bias.flatten(), rows, weight.flatten(0, 1).T)
        output = stacked.view(len(rows), len(weight), -1).transpose(0, 1)
    else:
        output = torch.baddbmm(bias[:, None], rows, weight.mT)
    for weight, bias in layers[1:]:
        output = torch.baddbmm(bias[:, None], activate_(output, is_normed), weight.mT)
    return output


class OneByOne:
    """Moves one member after the other, by passes that read and write everything once: fastest on a CPU.

    ``moved`` are parameters and their gradients, pair by pair; every array has a row per member. ``load`` is
    called before training begins anew, ``step`` with the number of members that go on and, on the device, the
    number of the step.
    """

    def __init__(self, moved: Sequence[Pair]) -> None:
        self._parameters, self._gradients = (
            [list(rows) for rows in zip(*arrays, strict=True)] for arrays in zip(*moved, strict=True)
        )
        self._steppers: list[Stepper] = []

    def load(self, schedule: Schedule) -> None:
        """Build the optimisers."""
        self._steppers = [
            Stepper(
                own.optimizer,
                parameters,
                own.learning_rate,
                weight_decay=own.weight_decay,
                momentum=own.momentum,
            )
            for own, parameters in zip(schedule.settings, self._parameters, strict=False)
        ]

    def step(self, m: int, now: torch.Tensor) -> None:
        """Let each take a step."""
        for stepper, gradients in zip(self._steppers[:m], self._gradients, strict=False):
            stepper.step(gradients)


class AllAtOnce:
    """Moves all members by one formula, without asking the device for anything; otherwise like OneByOne."""

    def __init__(self, moved: Sequence[Pair], kinds: frozenset[str], n_steps: int) -> None:
        like = moved[0][0]
        self._moved = [(parameters, gradients, Moments(parameters)) for parameters, gradients in moved]
        nothing = Coefficients.build(["sgd"] * len(like), [0.0] * len(like), device=like.device)
        self._coefficients = Coefficients(nothing.table.to(like.dtype), kinds)
        self._rates, self._roots = (like.new_zeros(len(like), n_steps) for _ in range(2))
        self._kernels, self._packed = load_kernels(like.device), self._coefficients.pack()
        self._loaded: Schedule | None = None

    def load(self, schedule: Schedule) -> None:
        """Take over the settings, unless they are there already, and forget the averages."""
        if schedule is not self._loaded:
            m, self._loaded = len(schedule.settings), schedule
            self._coefficients.table[:m] = schedule.coefficients.table
            rates, roots = schedule.coefficients.schedule(schedule.n_steps, self._rates.shape[1])
            self._rates[:m], self._roots[:m] = rates, roots
            self._packed.copy_(self._coefficients.table[:, :6])
        for _, _, moments in self._moved:
            moments.reset()

    def step(self, m: int, now: torch.Tensor) -> None:
        """Move all, where Triton is there by a kernel that reads and writes everything once."""
        if self._kernels is not None:
            for values, gradients, moments in self._moved:
                averages, schedules = (moments.first, moments.second), (self._rates, self._roots)
                self._kernels.step(values, gradients, averages, self._packed, schedules, now, m)
            return
        rate, root = (schedule[:m].index_select(1, now) for schedule in (self._rates, self._roots))
        coefficients = Coefficients(self._coefficients.table[:m], self._coefficients.kinds)
        for values, gradients, moments in self._moved:
            moments.step(values[:m], gradients[:m], coefficients, rate, root)


def load_kernels(device: torch.device) -> Any:
    """Return the module of our own kernels if they run on a device, else None."""
    if device.type != "cuda" or find_spec("triton") is None:
        return None
    return import_module("gbgnn.learners.kernels")
