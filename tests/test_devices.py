from __future__ import annotations

import pytest
import torch

from gbgnn._devices import as_device, as_dtype
from gbgnn.errors import ParameterError


def test_auto_is_the_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for available, kind in ((True, "cuda"), (False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda available=available: available)
        assert as_device("auto").type == kind


def test_cuda_without_a_device_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ParameterError, match='torch finds no CUDA device; use "cpu" or "auto"'):
        as_device("cuda:0")


def test_words_and_objects() -> None:
    assert as_device(torch.device("cpu")) == as_device("cpu")
    assert as_dtype("float64") is as_dtype(torch.float64) is torch.float64
