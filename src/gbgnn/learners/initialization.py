"""Initialization: torch's default for linear layers, drawn for all weights of all members at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gbgnn._random import draw_bits, hash_grid
from gbgnn.learners.schedule import Schedule, Shape


@dataclass(frozen=True, eq=False)
class Initialization:
    r"""Draws weights and biases uniformly from :math:`\pm 1 / \sqrt{\text{fan in}}`.

    A number depends on its place in its layer and on the layer's key, so that a narrow network draws the same
    alone and inside a wider one. Parameters are in the order of :class:`~gbgnn.learners.batched.BatchedMLP`.

    Parameters
    ----------
    fan_in
        Of the first layer.
    places
        The hash of every parameter's place, shape (n_parameters,).
    streams
        From which of the keys, weights and biases of every layer in turn, it is drawn.
    layers
        Whose it is; padding is one layer more, of zeros.
    units
        The last hidden unit that it joins; it is absent where a network has no such unit.
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
