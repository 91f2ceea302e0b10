"""Files written whole or not at all, be it after a loss of power; values as JSON has them."""

from __future__ import annotations

import errno
import json
import math
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any


@contextmanager
def atomic_path(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path beside ``path``; put it in place on success, remove it on failure."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    os.close(handle)
    part = Path(name)
    try:
        yield part
        umask = os.umask(0)
        os.umask(umask)
        part.chmod(0o666 & ~umask)
        _sync(part)
        part.replace(target)
        _sync(target.parent)
    finally:
        part.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file atomically."""
    with atomic_path(path) as part:
        part.write_text(text, encoding="utf-8")


def _sync(path: Path) -> None:
    """Wait until a file, or the entries of a folder, are on the disk, where the system can tell."""
    try:
        handle = os.open(path, os.O_RDONLY)
    except OSError:  # a folder, on systems that do not open them
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):  # not every file system can
            raise
    finally:
        os.close(handle)


def as_plain(value: Any, *, unknown: Callable[[Any], Any] = str, finite: bool = False) -> Any:
    """Return a value of dictionaries with text keys, lists, numbers, text, booleans and None.

    NumPy's arrays and scalars become lists and numbers, tuples become lists, and any other object what
    ``unknown`` makes of it: its text by default. With ``finite`` NaN and infinity become None.
    """
    plain = partial(as_plain, unknown=unknown, finite=finite)
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if finite and isinstance(value, float) and not math.isfinite(value):
        return None
    return value if isinstance(value, (bool, int, float, str, type(None))) else unknown(value)


def to_json(value: Any, *, indent: int | None = None) -> str:
    """Return standard JSON text; what is not finite is null, which standard JSON has no numbers for."""
    return json.dumps(as_plain(value, finite=True), indent=indent, ensure_ascii=False, allow_nan=False)
