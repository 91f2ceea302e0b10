"""How much memory a computation takes at its peak, beyond what was there before."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import torch

from gbgnn.boosting.diagnostics import peak_memory

_STATUS = Path("/proc/self/statm")
_CLEAR = Path("/proc/self/clear_refs")


class MemoryMeter:
    """Counts from when it is made: on a GPU, what torch allocates there; else, what this process holds.

    Of a process, the peak so far can be forgotten on Linux alone; elsewhere the meter shows too little for a
    process that has held more before, which a fresh one has not.

    Parameters
    ----------
    device
        Where the computation takes place.

    Examples
    --------
    >>> meter = MemoryMeter(torch.device("cpu"))
    >>> numbers = torch.ones(2**25)  # so large that it takes memory of its own
    >>> meter.peak() > 2**26
    True
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
            self._before: int | None = int(torch.cuda.memory_allocated(device))
        else:
            _forget_peak()
            self._before = _read_resident()

    def peak(self) -> int | None:
        """Return the most bytes that were held at once, without those held at the start; None if unknown."""
        now = peak_memory(self._device)
        return None if now is None or self._before is None else max(0, now - self._before)


def _forget_peak() -> None:
    with suppress(OSError):  # not Linux, or not allowed
        _CLEAR.write_text("5")


def _read_resident() -> int | None:
    if not _STATUS.exists():
        return peak_memory(torch.device("cpu"))
    return int(_STATUS.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
