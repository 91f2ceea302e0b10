"""How much memory there is, asked before something is made as large as a file says that it is."""

from __future__ import annotations

import ctypes
import os
import re
from contextlib import suppress
from pathlib import Path

from gbgnn.errors import DataError

_LARGE, _DENSE = 1 << 30, 200


def free_bytes() -> int | None:
    """Return how many bytes this process can still have; None where the system does not tell."""
    known = []
    with suppress(OSError, ValueError, AttributeError):
        known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(OSError):
        found = re.search(r"MemAvailable:\s+(\d+) kB", Path("/proc/meminfo").read_text(encoding="ascii"))
        known += [int(found[1]) << 10] if found else []
    with suppress(ImportError, OSError, ValueError):
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            used = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
            known.append(max(0, limit - used * os.sysconf("SC_PAGE_SIZE")))
    return min(known, default=None)


def resident_bytes() -> int | None:
    """Return how much memory this process takes now; None where the system does not tell."""
    with suppress(OSError, ValueError, AttributeError, IndexError):
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return None


def give_back() -> None:
    """Give the system what is free in the process: glibc keeps large blocks for later, in many pieces."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def check_size(what: str, size: int, stored: int | None = None) -> None:
    """Raise where ``size`` bytes are more than there are, or suspiciously many for those stored.

    Data that is compressed to a hundredth is common; a gigabyte out of a few megabytes is not.
    """
    if stored is not None and size > max(_LARGE, _DENSE * stored):
        raise DataError(
            f"{what} unpacks from {_words(stored)} to {_words(size)}, as files do that are made to fill the "
            "memory; if yours is right, store it without compression."
        )
    free = free_bytes()
    if free is not None and size > free:
        raise DataError(f"{what} needs {_words(size)} of memory, but {_words(free)} are free.")


def _words(size: int) -> str:
    unit, name = next(
        (u, n) for u, n in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1, "bytes")) if size >= u or u == 1
    )
    return f"{size / unit:,.1f} {name}" if unit > 1 else f"{size:,} {name}"
