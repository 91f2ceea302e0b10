"""Networks that are trained together: their sizes, and what every step of training draws and takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch

from gbgnn._optimizers import Coefficients
from gbgnn._random import Purpose, derive_keys, draw_bits, dropout_threshold, extend_keys, hash_grid


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


@dataclass(frozen=True, eq=False)
class Keys:
    """Keys of the streams that networks draw from, int32; computed on the host, where small numbers are fast.

    Parameters
    ----------
    weights
        Of the weights and biases of every layer, shape (members, layers, 2).
    dropout
        Of every step and hidden layer, shape (members, n_steps, hidden layers); empty without dropout.
    orders
        Of every epoch's order of rows, shape (members, epochs); empty where a step takes all rows.
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

    Parameters
    ----------
    settings
        Those of each.
    n_rows
        Number of labelled rows.
    epochs, batch
        Passes over them, and rows per step.
    units
        Width of hidden layers.
    dropout, threshold
        Dropout of hidden units, and the draw below which one is dropped, an int32.
    coefficients
        Those of the optimisers.

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
        index = torch.tensor(positions)
        chosen = self._map(lambda column: column[index], self.coefficients.members(index))
        return replace(chosen, settings=[self.settings[i] for i in positions])

    def to(self, device: torch.device) -> Schedule:
        """Return the columns on a device."""
        return self._map(lambda column: column.to(device), self.coefficients.to(device))

    def _map(self, change: Callable[[torch.Tensor], torch.Tensor], coefficients: Coefficients) -> Schedule:
        names = ("epochs", "batch", "units", "dropout", "threshold")
        columns: dict[str, Any] = {name: change(getattr(self, name)) for name in names}
        return replace(self, **columns, coefficients=coefficients)

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
        Columns that are trained on. Weights are drawn as for ``fan_in`` columns.
    units, n_hidden, n_outputs
        Width and number of hidden layers, and columns of the output.
    n_steps
        The most steps of a member.
    is_batched
        Whether a step takes some of the rows only.
    is_shared
        Whether all members have the same rows.
    has_dropout
        Whether some member has dropout.
    kinds
        The optimisers there are.
    """

    n_members: int
    n_rows: int
    n_places: int
    n_columns: int
    fan_in: int
    units: int
    n_hidden: int
    n_outputs: int
    n_steps: int
    is_batched: bool
    is_shared: bool
    has_dropout: bool
    kinds: frozenset[str]

    @classmethod
    def build(
        cls,
        schedule: Schedule,
        *,
        n_columns: int,
        fan_in: int,
        n_hidden: int,
        n_outputs: int,
        is_shared: bool,
    ) -> Shape:
        """Return the sizes of networks that are trained by a schedule, on the host."""
        return cls(
            n_members=len(schedule.settings),
            n_rows=schedule.n_rows,
            n_places=int(schedule.batch.max()),
            n_columns=n_columns,
            fan_in=fan_in,
            units=int(schedule.units.max()),
            n_hidden=n_hidden,
            n_outputs=n_outputs,
            n_steps=int(schedule.n_steps.max()),
            is_batched=schedule.is_batched,
            is_shared=is_shared,
            has_dropout=n_hidden > 0 and bool((schedule.dropout > 0).any()),
            kinds=frozenset(own.optimizer for own in schedule.settings),
        )

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
