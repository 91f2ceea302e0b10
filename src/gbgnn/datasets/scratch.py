"""Where there is room for what does not fit into memory, and how much memory there is."""

from __future__ import annotations

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from gbgnn._memory import free_bytes, give_back, resident_bytes
from gbgnn.errors import ParameterError

_SHARE = 0.7
"""Of the memory that is free under the limit, what arrays may take; the rest is for what is made then."""

_LEAST = 96 << 20
_USUAL = 2 << 30
"""Bytes for arrays: with less room than the least nothing begins, without a limit there is the usual room."""


@dataclass(frozen=True)
class Scratch:
    """A folder for what does not fit into memory, and the bytes that the process may take; None is no limit.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as place:
    ...     scratch = Scratch(Path(place), memory_limit=10**10)
    ...     scratch.room() < 10**10, scratch.path("x.npy").exists()
    (True, False)
    """

    folder: Path
    memory_limit: int | None = None

    def room(self) -> int:
        """Return how many bytes arrays may take now, or say that the limit leaves none."""
        if self.memory_limit is None:
            free = free_bytes()
            return _USUAL if free is None else min(_USUAL, free // 2)
        if "pyarrow" in sys.modules:  # which keeps what it no longer needs
            sys.modules["pyarrow"].default_memory_pool().release_unused()
        give_back()
        resident = resident_bytes()
        taken = self.memory_limit // 2 if resident is None else resident
        room = int(_SHARE * (self.memory_limit - taken))
        if room < _LEAST:
            raise ParameterError(
                f"memory_limit={self.memory_limit:,} bytes is too little: {taken:,} are taken already. Give "
                f"at least {taken + int(_LEAST / _SHARE):,}."
            )
        return room

    def check(self, what: str, size: int) -> None:
        """Raise where something is as large as all the room there is, whatever a limit's share."""
        if self.memory_limit is not None and size > (room := self.room()):
            raise ParameterError(
                f"memory_limit={self.memory_limit:,} bytes is too little: {what} take {size:,}, but there is "
                f"room for {room:,}. Give at least {self.memory_limit + int((size - room) / _SHARE):,}."
            )

    def path(self, name: str) -> Path:
        """Return the path of a new file."""
        return Path(tempfile.mkdtemp(dir=self.folder), name)
