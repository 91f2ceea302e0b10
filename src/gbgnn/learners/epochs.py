"""What an epoch of training draws: the order of the labelled rows, and the hidden units that are silenced."""

from __future__ import annotations

import torch

from gbgnn._random import Purpose, cut_off, draw, key_of, places


def _n_at_once(n_draws: int) -> int:
    """Return for how many epochs to draw at once: for few numbers, calling takes longer than hashing."""
    return min(16, 2**16 // n_draws)


class Orders:
    """The labelled rows in a new order every epoch.

    Parameters
    ----------
    n_rows
        Number of labelled rows.
    seed, device
        Where draws come from, and where they are needed.

    Examples
    --------
    >>> Orders(5, seed=0).order(epoch=2).sort().values.tolist()
    [0, 1, 2, 3, 4]
    """

    def __init__(self, n_rows: int, seed: int, device: torch.device | str = "cpu") -> None:
        self._n_rows, self._seed, self._device = n_rows, seed, device
        self._n_epochs = max(1, _n_at_once(n_rows))
        self._known, self._orders = range(0), torch.empty(0)

    def order(self, epoch: int) -> torch.Tensor:
        """Return the places of the rows in the order of ``epoch``."""
        if epoch not in self._known:
            self._known = range(epoch, epoch + self._n_epochs)
            keys = torch.tensor(
                [key_of(self._seed, Purpose.ORDER, known) for known in self._known],
                dtype=torch.int32,
                device=self._device,
            )
            rows = places(torch.arange(self._n_rows, device=self._device), 1)[:, 0]
            self._orders = draw(rows, keys[:, None]).argsort(dim=1, stable=True)
        return self._orders[epoch - self._known.start]


class Dropout:
    """What hidden units are multiplied by: 0, or one over the share that is kept.

    An epoch meets every row once, so that its masks have a row per labelled row, whatever the batches.

    Parameters
    ----------
    share
        Share of the units that are silenced, in (0, 1).
    shape
        Hidden layers, labelled rows and units.
    seed, like
        Where draws come from, and what the masks are to multiply.

    Examples
    --------
    >>> Dropout(0.5, (1, 1, 8), seed=0, like=torch.empty(0)).masks(epoch=3)
    tensor([[[2., 2., 0., 2., 2., 0., 2., 2.]]])
    """

    def __init__(self, share: float, shape: tuple[int, int, int], seed: int, like: torch.Tensor) -> None:
        self._share, self._seed, self._like = share, seed, like
        self._n_layers, n_rows, self._n_units = shape
        self._rows = torch.arange(n_rows, device=like.device)
        self._n_epochs = _n_at_once(self._n_layers * n_rows * self._n_units)
        self._known, self._masks = range(0), torch.empty(0)

    def masks(self, epoch: int, chosen: torch.Tensor | None = None) -> torch.Tensor:
        """Return the masks of all hidden layers, shape (layers, rows, units), of all rows or the chosen."""
        if not self._n_epochs and chosen is not None:  # many rows, of which few are needed
            return self._draw(chosen, range(epoch, epoch + 1))[0]
        if epoch not in self._known:
            self._known = range(epoch, epoch + max(1, self._n_epochs))
            self._masks = self._draw(self._rows, self._known)
        masks = self._masks[epoch - self._known.start]
        return masks if chosen is None else masks[:, chosen]

    def _draw(self, rows: torch.Tensor, epochs: range) -> torch.Tensor:
        layers = range(self._n_layers)
        keys = [[key_of(self._seed, Purpose.DROPOUT, depth, epoch) for depth in layers] for epoch in epochs]
        keys_of_tables = torch.tensor(keys, dtype=torch.int32, device=rows.device)[..., None, None]
        draws = draw(places(rows, self._n_units), keys_of_tables)
        return draws.ge_(cut_off(self._share)).to(self._like.dtype).mul_(1 / (1 - self._share))
