"""InputMap: what a network is trained on, made of rows of a representation."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from gbgnn.learners.basis import RowBasis, is_smaller


@dataclass(frozen=True, eq=False)
class InputMap:
    """Rows without what they have in common, of size one, and in coordinates of the labelled rows' own space.

    All are affine maps, so that a first layer for their result is one for raw rows. Dimensions in front are
    so many sets of rows.

    Parameters
    ----------
    shift, size
        x -> (x - shift) / size; None leaves rows as they are.
    basis
        The coordinates; None keeps the columns.

    Examples
    --------
    >>> rows = torch.tensor([[1.0, 5.0], [3.0, 5.0]])
    >>> InputMap.fit(rows, standardize=True, basis="features")(rows).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """

    shift: torch.Tensor | None = None
    size: torch.Tensor | None = None
    basis: RowBasis | None = None

    @classmethod
    def fit(cls, rows: torch.Tensor, *, standardize: bool, basis: str) -> InputMap:
        """Return the map that suits labelled rows, shape (..., M, C)."""
        scaling = cls()
        if standardize:
            shift = rows.mean(dim=-2, keepdim=True)
            size = (rows - shift).square().sum(dim=-1).mean(dim=-1).sqrt()[..., None, None]
            scaling = cls(shift, torch.where(size > 0, size, 1.0))
        if not is_smaller(basis, *rows.shape[-2:]):
            return scaling
        return cls(scaling.shift, scaling.size, RowBasis.of(scaling(rows)))

    @property
    def is_batched(self) -> bool:
        """Whether there is a map for each member."""
        parts = (self.shift, None if self.basis is None else self.basis.rows)
        return any(part is not None and part.ndim > 2 for part in parts)

    def member(self, i: int) -> InputMap:
        """Return the map of one member."""
        shift, size = (None if part is None else part[i] for part in (self.shift, self.size))
        return InputMap(shift, size, None if self.basis is None else self.basis.member(i))

    def __call__(self, rows: torch.Tensor) -> torch.Tensor:
        """Return rows, mapped."""
        if self.shift is not None and self.size is not None:
            rows = (rows - self.shift) / self.size
        return rows if self.basis is None else self.basis.coordinates(rows)

    def fold(self, weight: torch.Tensor, bias: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return a first layer, (..., out, in), that does for raw rows what this one does for mapped ones."""
        if self.basis is not None:
            weight = self.basis.unfold(weight.mT).mT
        if self.shift is not None and self.size is not None:
            weight = weight / self.size
            bias = bias - (weight @ self.shift.mT)[..., 0]
        return weight, bias
