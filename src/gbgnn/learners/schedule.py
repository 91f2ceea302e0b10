"""Networks that are trained together: their sizes, first weights, and what a step draws and takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from gbgnn._optimizers import Coefficients
from gbgnn._random import Purpose, derive_keys, draw_bits, dropout_threshold, extend_keys, hash_grid
from gbgnn.rounds import map_tensors


@dataclass(frozen=True)
class TrainingSettings:
    """How a network is trained; see :class:`~gbgnn.MLP`."""

    units: int
    epochs: int
    batch_size: int | None = None
    dropout: float = 0.0
    optimizer: str = "adam"
    learning_rate: float = 0.01
    momentum: float = 0.0
    weight_decay: float = 0.0

    @classmethod
    def of(cls, learner: Any, **changes: Any) -> TrainingSettings:
        """Return those of a learner, whose settings have the same names, with some changes."""
        own = vars(learner)
        return cls(**{name: own[name] for name in cls.__match_args__ if name in own} | changes)


@dataclass(frozen=True, eq=False)
class Keys:
    """Keys of the streams that networks draw from, int32; computed on the host, where small numbers are fast.

    Of the weights and biases of every layer, shape (members, layers, 2); for dropout, of every step and
    hidden layer; of every epoch's order of rows, (members, epochs). What nobody draws is empty.
    """

    weights: torch.Tensor
    dropout: torch.Tensor
    orders: torch.Tensor

    def to(self, device: torch.device) -> Keys:
        """Return the keys on a device, by one transfer."""
        parts = (self.weights, self.dropout, self.orders)
        sent = (
            torch.cat([part.flatten() for part in parts])
            .to(device, non_blocking=True)
            .split([part.numel() for part in parts])
        )
        return Keys(*(each.view(part.shape) for each, part in zip(sent, parts, strict=True)))


@dataclass(frozen=True, eq=False)
class Schedule:
    """How long and on which rows each of some networks is trained, as columns of shape (members,).

    ``batch`` is the number of rows per step, ``threshold`` the draw, an int32, below which a unit is dropped.

    Examples
    --------
    >>> settings = [TrainingSettings(8, epochs=3, batch_size=4), TrainingSettings(8, epochs=5)]
    >>> schedule = Schedule.build(settings, n_rows=10)
    >>> schedule.batches.tolist(), schedule.n_steps.tolist(), schedule.is_batched
    ([3, 1], [9, 5], True)
    """

    settings: Sequence[TrainingSettings]
    n_rows: int
    epochs: torch.Tensor
    batch: torch.Tensor
    units: torch.Tensor
    dropout: torch.Tensor
    threshold: torch.Tensor
    coefficients: Coefficients

    @classmethod
    def build(cls, settings: Sequence[TrainingSettings], n_rows: int) -> Schedule:
        """Read the settings, on the host."""
        return cls(
            settings,
            n_rows,
            torch.tensor([each.epochs for each in settings]),
            torch.tensor([min(n_rows, each.batch_size or n_rows) for each in settings]),
            torch.tensor([each.units for each in settings]),
            torch.tensor([each.dropout for each in settings], dtype=torch.float64),
            torch.tensor([dropout_threshold(each.dropout) for each in settings], dtype=torch.int32),
            Coefficients.build(
                [each.optimizer for each in settings],
                [each.learning_rate for each in settings],
                decay=[each.weight_decay for each in settings],
                momentum=[each.momentum for each in settings],
            ),
        )

    def members(self, positions: Sequence[int]) -> Schedule:
        """Return the columns of some members, on the host."""
        return Schedule.build([self.settings[i] for i in positions], self.n_rows)

    def to(self, device: torch.device) -> Schedule:
        """Return the columns on a device."""
        if self.batch.device == device:
            return self
        moved: Schedule = map_tensors(lambda column: column.to(device), self)
        return moved

    @property
    def batches(self) -> torch.Tensor:
        """Steps per epoch."""
        return -(-self.n_rows // self.batch)

    @property
    def n_steps(self) -> torch.Tensor:
        """Steps in all."""
        return self.epochs * self.batches

    @property
    def is_batched(self) -> bool:
        """Whether some member does not take all rows at once."""
        return bool((self.batch < self.n_rows).any())

    def epochs_of_steps(self, n_steps: int) -> torch.Tensor:
        """Return the epoch of every step, shape (members, n_steps)."""
        return torch.arange(n_steps, device=self.batch.device) // self.batches[:, None]

    def sizes(self, n_steps: int) -> torch.Tensor:
        """Return the number of rows of every step, shape (members, n_steps); 0 after the last."""
        step = torch.arange(n_steps, device=self.batch.device)
        start = step % self.batches[:, None] * self.batch[:, None]
        size = torch.minimum(self.batch[:, None], self.n_rows - start)
        return torch.where(step < self.n_steps[:, None], size, 0)

    def derive_keys(self, seeds: Sequence[int], n_steps: int, n_hidden: int) -> Keys:
        """Return what networks with these seeds draw from; a schedule on the host."""
        own, n_epochs = derive_keys(seeds), max(own.epochs for own in self.settings) or 1
        layers, kinds, epochs = (np.arange(n, dtype=np.uint32) for n in (n_hidden + 1, 2, n_epochs))
        weights = extend_keys(own[:, None, None], kinds, layers[:, None])
        dropout = orders = np.zeros((len(own), 0, 0), np.uint32)
        if n_hidden and any(own.dropout for own in self.settings):
            by_epoch = extend_keys(own[:, None, None], Purpose.DROPOUT, layers[:-1], epochs[:, None])
            at = self.epochs_of_steps(n_steps).clamp(max=n_epochs - 1).numpy()[..., None]
            dropout = np.take_along_axis(by_epoch, at, axis=1)
        if self.is_batched:
            orders = extend_keys(own[:, None], Purpose.ORDER, epochs)
        return Keys(*(torch.from_numpy(each.view(np.int32)) for each in (weights, dropout, orders)))

    def chosen_rows(
        self, keys: torch.Tensor, n_steps: int, n_places: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the rows of every step, and the factor of their weights.

        Shapes are (members, n_steps, n_places) and (members, n_steps). A place that no row takes holds
        ``n_rows``, the number of a row that is not there. ``keys`` are those of the orders of all epochs.
        """
        n = self.n_rows
        table = hash_grid(torch.arange(n, device=keys.device), 1)[:, 0]
        orders = draw_bits(table, keys[..., None]).argsort(dim=2, stable=True)
        step = torch.arange(n_steps, device=keys.device)
        start = step % self.batches[:, None] * self.batch[:, None]  # where in the epoch's order
        size = self.sizes(n_steps)
        place = torch.arange(n_places, device=keys.device)
        index = (self.epochs_of_steps(n_steps) * n + start)[..., None] + place
        taken = orders.flatten(1).gather(1, index.flatten(1).clamp_(max=keys.shape[1] * n - 1))
        rows = torch.where(place < size[..., None], taken.view(index.shape), n)
        length = size.clamp_min(1).double()
        return rows, torch.full_like(length, n) / length


_ALIGNMENT = 16
"""Rows have a multiple of this many columns: products of matrices are up to 1.4 times as fast."""


class Shape:
    """The sizes of networks trained together, by a schedule on the host; smaller ones are padded with zeros.

    There is room for ``n_members``. A step takes ``n_places`` of the ``n_rows`` labelled rows, some of them
    only where it ``is_batched``. Rows have ``n_columns``, are the same for all members where that
    ``is_shared``, and weights are drawn as for ``fan_in``. ``n_steps`` are the most of a member; whether some
    member ``has_dropout``, whether hidden layers are standardised (``is_normed``), and the ``kinds`` of
    optimisers there are, decide what a step computes.
    """

    def __init__(
        self,
        schedule: Schedule,
        *,
        n_columns: int,
        fan_in: int,
        n_hidden: int,
        n_outputs: int,
        is_shared: bool,
        is_normed: bool = False,
    ) -> None:
        self.n_columns, self.fan_in, self.is_shared = n_columns, fan_in, is_shared
        self.n_hidden, self.n_outputs, self.units = n_hidden, n_outputs, int(schedule.units.max())
        self.n_members, self.n_steps = len(schedule.settings), int(schedule.n_steps.max())
        self.n_rows, self.n_places = schedule.n_rows, int(schedule.batch.max())
        self.is_batched, self.is_normed = schedule.is_batched, is_normed and n_hidden > 0
        self.has_dropout = n_hidden > 0 and bool((schedule.dropout > 0).any())
        self.kinds = frozenset(own.optimizer for own in schedule.settings)

    @property
    def widths(self) -> tuple[int, ...]:
        """Columns of the rows (a constant one and padding included), of hidden layers, of the output."""
        padded = -(-(self.n_columns + 1) // _ALIGNMENT) * _ALIGNMENT
        return (padded, *[self.units] * self.n_hidden, self.n_outputs)

    @property
    def n_parameters(self) -> list[int]:
        """Sizes of the first layer, whose bias is one of its columns, and of all later weights and biases."""
        later = [size for n_out, n_in in self.later_sizes for size in (n_out * n_in, n_out)]
        return [self.widths[0] * self.widths[1], *later]

    @property
    def later_sizes(self) -> list[tuple[int, int]]:
        """Outputs and inputs of every layer but the first."""
        return [(n_out, n_in) for n_in, n_out in pairwise(self.widths[1:])]


@dataclass(frozen=True, eq=False)
class Initialization:
    r"""Draws weights and biases uniformly from :math:`\pm 1 / \sqrt{\text{fan in}}`.

    A number depends on its place in its layer and on the layer's key, so that a narrow network draws the same
    alone and inside a wider one. Parameters are in the order of :class:`~gbgnn.learners.batched.BatchedMLP`.

    Of every parameter there are the hash of its ``places``; the ``streams``, from which of the keys, weights
    and biases of every layer in turn, it is drawn; ``layers``, whose it is (padding is one layer more, of
    zeros); and ``units``, the last hidden unit that it joins: it is absent where a network has no such unit.
    """

    fan_in: int
    places: torch.Tensor
    streams: torch.Tensor
    layers: torch.Tensor
    units: torch.Tensor

    @classmethod
    def build(cls, shape: Shape, device: torch.device) -> Initialization:
        """Lay out the parameters of networks with these sizes."""
        parts = []
        for depth, (n_out, n_in) in enumerate([(shape.widths[1], shape.n_columns), *shape.later_sizes]):
            n_padding = shape.widths[0] - n_in - 1 if depth == 0 else 0
            # A column per input, then that of the bias, whose place is the first.
            column = torch.arange(n_in + 1 + n_padding, device=device)
            is_weight, is_padding = column < n_in, column > n_in
            out = torch.arange(n_out, device=device)[:, None].expand(-1, len(column))
            joined = torch.where(is_weight, column, -1) if depth else torch.full_like(column, -1)
            tables = (
                hash_grid(torch.where(is_weight, column, 0), n_out).T,
                torch.where(is_weight, 2 * depth, 2 * depth + 1).expand_as(out),
                torch.where(is_padding, shape.n_hidden + 1, depth).expand_as(out),
                torch.maximum(joined, out) if depth < shape.n_hidden else joined.expand_as(out),
            )
            # Later layers have their weights first, then their biases.
            pieces = [slice(None)] if depth == 0 else [slice(n_in), slice(n_in, None)]
            parts += [[table[:, piece].flatten() for table in tables] for piece in pieces]
        return cls(shape.fan_in, *(torch.cat(column) for column in zip(*parts, strict=True)))

    def find_spreads(self, schedule: Schedule, dtype: torch.dtype) -> torch.Tensor:
        """Return by what draws of 24 bits are multiplied in every layer, shape (members, layers + 1)."""
        n_layers, units = int(self.layers.max()), schedule.units.double()
        fans = [torch.full_like(units, self.fan_in), *[units] * (n_layers - 1)]
        spreads = [*(2 / fan.sqrt() for fan in fans), torch.zeros_like(units)]
        return (torch.stack(spreads, dim=1) * 2**-24).to(dtype)

    def draw(self, keys: torch.Tensor, spreads: torch.Tensor, units: torch.Tensor | None) -> torch.Tensor:
        """Return the parameters of every member, from keys of shape (members, layers, 2).

        Of some ``units`` only where networks differ in them.
        """
        bits = draw_bits(self.places, keys.flatten(1).index_select(1, self.streams))
        drawn = (bits >> 8).to(spreads.dtype).mul_(spreads.index_select(1, self.layers))
        return drawn if units is None else drawn.masked_fill_(self.units >= units[:, None], 0.0)
