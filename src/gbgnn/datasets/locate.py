"""Where the files of a known data set may lie on this machine, and whether they are the right ones."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

from gbgnn.datasets.catalog import CATALOG, Entry, FileSet
from gbgnn.errors import DataError, DatasetNotFoundError, suggest

PathLike = str | os.PathLike[str]


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
    """Return the folder for downloads: ``GBGNN_CACHE``, or the system's usual cache.

    Examples
    --------
    >>> cache_folder().is_absolute()
    True
    """
    if named := os.environ.get("GBGNN_CACHE"):
        return Path(named).expanduser().absolute()
    try:
        import pooch
    except ImportError:  # pooch's own place on Linux
        return Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser().absolute() / "gbgnn"
    return Path(pooch.os_cache("gbgnn")).absolute()


def search_places(data_dir: PathLike | None = None) -> list[tuple[str, Path | None]]:
    """Return where files are looked for, in order, each with the name of who asked for it.

    Examples
    --------
    >>> [origin for origin, _ in search_places("my_data")]
    ['data_dir', 'GBGNN_DATA', 'cache']
    """
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
