"""Turning the words for a device and a precision into torch's objects."""

from __future__ import annotations

from typing import Any

import torch

from gbgnn._checks import check_choice
from gbgnn.errors import ParameterError

DTYPES = {"float32": torch.float32, "float64": torch.float64}


def as_device(device: Any) -> torch.device:
    """Return the torch device; ``"auto"`` is the GPU where there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        result = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ParameterError(f'device must be "auto", "cpu" or "cuda"; got {device!r}.') from error
    if result.type == "cuda" and not torch.cuda.is_available():
        raise ParameterError(f'device={device!r}, but torch finds no CUDA device; use "cpu" or "auto".')
    return result


def as_dtype(dtype: Any) -> torch.dtype:
    """Return the torch precision for ``"float32"`` or ``"float64"``."""
    if isinstance(dtype, torch.dtype):
        dtype = str(dtype).removeprefix("torch.")
    check_choice("GBGNNClassifier", "dtype", dtype, DTYPES)
    return DTYPES[dtype]
