"""Backend: one way to compute the product of P and a dense matrix."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch

from gbgnn.propagation.operator import Operator


class Backend(ABC):
    """Multiplies dense matrices by the P that an :class:`~gbgnn.propagation.Operator` describes.

    It is built once, by a :class:`~gbgnn.propagation.Propagator`, from a description that is on its device;
    products may then run in several threads at the same time, so they change nothing of it.
    """

    name: ClassVar[str]

    @staticmethod
    @abstractmethod
    def takes(device: torch.device, dtype: torch.dtype) -> bool:
        """Return whether products on this device and in this precision can be computed here."""

    @abstractmethod
    def __init__(self, operator: Operator, dtype: torch.dtype) -> None: ...

    @abstractmethod
    def multiply(self, X: torch.Tensor, out: torch.Tensor | None) -> torch.Tensor:
        """Return P @ X, in ``out`` where given; X is (N, C), of the precision of the products, and stays."""

    @abstractmethod
    def tensors(self) -> list[torch.Tensor]:
        """Return what is held beside the description."""


def cast(scaling: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
    """Return the diagonal of a scaling in the precision of the products, as a column."""
    return None if scaling is None else scaling.to(dtype)[:, None]
