"""What every step of training draws and takes, for members that step together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from gbgnn._random import Purpose, cut_off, draw, keys_of, places
from gbgnn.learners import MLP


@dataclass(frozen=True, eq=False)
class Plan:
    """How long and on which rows each of some members is trained, as columns of shape (members,).

    Parameters
    ----------
    n_rows
        Number of labelled rows.
    epochs, batch
        Passes over them, and rows per step.
    units
        Width of hidden layers.
    dropout, cut_off
        Share of hidden units that are silenced, and the draw below which one is, an int32.

    Examples
    --------
    >>> plan = Plan.of([MLP(epochs=3, batch_size=4), MLP(epochs=5)], n_rows=10)
    >>> plan.batches.tolist(), plan.n_steps.tolist(), plan.is_batched
    ([3, 1], [9, 5], True)
    """

    n_rows: int
    epochs: torch.Tensor
    batch: torch.Tensor
    units: torch.Tensor
    dropout: torch.Tensor
    cut_off: torch.Tensor

    @classmethod
    def of(cls, learners: Sequence[MLP], n_rows: int) -> Plan:
        """Read the settings of learners."""
        batch = [min(n_rows, learner.batch_size or n_rows) for learner in learners]
        dropout = [learner.dropout for learner in learners]
        return cls(
            n_rows,
            torch.tensor([learner.epochs for learner in learners]),
            torch.tensor(batch),
            torch.tensor([learner.units for learner in learners]),
            torch.tensor(dropout, dtype=torch.float64),
            torch.tensor([cut_off(share) for share in dropout], dtype=torch.int32),
        )

    def of_members(self, ids: torch.Tensor) -> Plan:
        """Return the rows of some members."""
        return self._mapped(lambda column: column[ids])

    def to(self, device: torch.device) -> Plan:
        """Return the columns on a device."""
        return self._mapped(lambda column: column.to(device))

    def _mapped(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Plan:
        columns = (self.epochs, self.batch, self.units, self.dropout, self.cut_off)
        return Plan(self.n_rows, *map(change, columns))

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

    def epoch_of(self, n_steps: int) -> torch.Tensor:
        """Return the epoch of every step, shape (members, n_steps)."""
        return torch.arange(n_steps, device=self.batch.device) // self.batches[:, None]

    def sizes(self, n_steps: int) -> torch.Tensor:
        """Return the number of rows of every step, shape (members, n_steps); 0 after the last."""
        step = torch.arange(n_steps, device=self.batch.device)
        start = step % self.batches[:, None] * self.batch[:, None]
        size = torch.minimum(self.batch[:, None], self.n_rows - start)
        return torch.where(step < self.n_steps[:, None], size, 0)

    def dropout_keys(self, seeds: torch.Tensor, n_steps: int, n_layers: int) -> torch.Tensor:
        """Return the keys by which units are silenced, int32, shape (members, n_steps, n_layers)."""
        epochs = self.epoch_of(n_steps).to(torch.int32)[..., None]
        layers = torch.arange(n_layers, dtype=torch.int32, device=seeds.device)
        return keys_of(seeds[:, None, None], Purpose.DROPOUT, layers, epochs)

    def chosen_rows(
        self, seeds: torch.Tensor, n_steps: int, n_places: int, n_epochs: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the rows of every step, and the factor of their weights.

        Shapes are (members, n_steps, n_places) and (members, n_steps). A place that no row takes holds
        ``n_rows``, the number of a row that is not there. No member has more than ``n_epochs``, 1 or more.
        """
        n = self.n_rows
        epochs = torch.arange(n_epochs, dtype=torch.int32, device=seeds.device)
        keys = keys_of(seeds[:, None], Purpose.ORDER, epochs)
        table = places(torch.arange(n, device=seeds.device), 1)[:, 0]
        orders = draw(table, keys[..., None]).argsort(dim=2, stable=True)
        step = torch.arange(n_steps, device=seeds.device)
        start = step % self.batches[:, None] * self.batch[:, None]  # where in the epoch's order
        size = self.sizes(n_steps)
        place = torch.arange(n_places, device=seeds.device)
        index = (self.epoch_of(n_steps) * n + start)[..., None] + place
        taken = orders.flatten(1).gather(1, index.flatten(1).clamp_(max=n_epochs * n - 1))
        rows = torch.where(place < size[..., None], taken.view(index.shape), n)
        length = size.clamp_min(1).double()
        return rows, torch.full_like(length, n) / length
