"""Model files: one safetensors file, its header JSON, nothing in it that can run.

Equal models have equal files: how long training took, and in how much memory, is not in them. What a header
says of a model is in ``packing.py``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gbgnn._files import as_plain, atomic_path
from gbgnn._version import __version__
from gbgnn.blend import BlendedModel
from gbgnn.errors import MissingDependencyError, ModelFileError, import_needed
from gbgnn.graph import Graph
from gbgnn.model import FittedModel
from gbgnn.packing import Tensors, pack, refuse_value, unpack
from gbgnn.wrappers import FORMAT_VERSION as WRAPPED_VERSION
from gbgnn.wrappers import unwrap, unwrap_header, wrap, wrap_header

OLDEST_VERSION = 2

_NEEDED = ("safetensors.torch", "saving and loading models", "save")


def save(model: Any, path: str | os.PathLike[str], *, learners: bool = True) -> None:
    """Write a fitted model to one file, atomically and without pickle; :func:`load` reads it.

    Parameters
    ----------
    model
        A fitted estimator, its ``model_``, or a :class:`~gbgnn.Calibrated`, :class:`~gbgnn.PredictionSets` or
        :class:`~gbgnn.PredictionIntervals` around one, which are written with it.
    path
        The file, by custom ``*.gbgnn``.
    learners
        Whether to write the fitted learners; without them the file still predicts the nodes of the graph it
        was fitted on.
    """
    layers, fitted = unwrap(model)
    assert isinstance(fitted, (FittedModel, BlendedModel))
    header, tensors = pack(fitted, learners)
    header = wrap_header(header, layers)
    text = json.dumps(as_plain(header, unknown=refuse_value))
    metadata = {"gbgnn": text, "sha256": _digest(text, tensors)}
    save_file = import_needed(*_NEEDED).save_file
    from safetensors import SafetensorError

    with atomic_path(path) as part:
        try:
            save_file(tensors, part, metadata=metadata)
        except SafetensorError as error:  # how it tells of a full disk, among others
            found = re.search(r"os error (\d+)", str(error))
            if found is None:
                raise ModelFileError(f"{path} cannot be written: {error}.") from error
            raise OSError(int(found[1]), os.strerror(int(found[1])), str(path)) from error
        _sort_metadata(part)


def _sort_metadata(path: Path) -> None:
    """Bring the metadata of a safetensors file into order, which its library writes in any."""
    with path.open("r+b") as file:
        size = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(size))
        header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
        text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
        file.seek(8)
        file.write(text.ljust(size))  # with spaces, as there were


def load(path: str | os.PathLike[str], *, graph: Graph | None = None) -> Any:
    """Read a model file, and return the classifier or regressor that was saved.

    Nothing in it is executed; a damaged or newer file is a clear error.

    Parameters
    ----------
    path
        The file.
    graph
        The graph of the fit, which a file does not hold; some things need it, such as averages over
        neighbours. None leaves the model without.

    Examples
    --------
    >>> import tempfile
    >>> from gbgnn import GBGNNClassifier, datasets
    >>> data = datasets.load("karate")
    >>> model = GBGNNClassifier(n_rounds=2, random_state=0)
    >>> model = model.fit(data.train, data.y[data.train], graph=data.graph)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(f"{folder}/karate.gbgnn")
    ...     again = load(f"{folder}/karate.gbgnn")
    >>> bool((again.predict_proba(data.test) == model.predict_proba(data.test)).all())
    True
    """
    header, tensors = _read(Path(path))
    with _told_as_damage(path):
        layers, header = unwrap_header(header)
        found = unpack(header, tensors)
    if graph is not None:
        found.model_ = found.model_.with_graph(graph)
    with _told_as_damage(path):
        return wrap(found, layers)


@contextmanager
def _told_as_damage(path: str | os.PathLike[str]) -> Iterator[None]:
    """Make an error of the file's own of whatever a header raises that nobody wrote like this."""
    try:
        yield
    except ModelFileError as error:
        raise ModelFileError(f"{path} is damaged: {error}") from error
    except (MissingDependencyError, MemoryError):
        raise
    except Exception as error:  # whatever a forged header leads to
        raise ModelFileError(f"{path} is damaged: its header does not fit ({error!r}).") from error


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the JSON header of a model file, checked like :func:`load` does.

    What is around the model is its ``around``, the outermost first.
    """
    whole = _read(Path(path))[0]
    with _told_as_damage(path):
        layers, header = unwrap_header(whole)
        return header | {"around": whole["around"]} if layers else header


def _read(path: Path) -> tuple[dict[str, Any], Tensors]:
    if not path.is_file():
        raise ModelFileError(f"there is no model file {path}.")
    import_needed(*_NEEDED)
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            # Copied to where torch would have put them: products of arrays that begin elsewhere in memory
            # may differ in the last bit.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError, ValueError) as error:
        raise ModelFileError(f"{path} is damaged, truncated or no model file ({error}).") from error
    if "gbgnn" not in metadata:
        raise ModelFileError(f"{path} is a safetensors file, but not one that gbgnn wrote.")
    try:
        header = json.loads(metadata["gbgnn"])
        version = int(header["format_version"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise ModelFileError(f"{path} is damaged: its header cannot be read.") from error
    if version > WRAPPED_VERSION:
        raise ModelFileError(
            f"{path} has format {version}, written by gbgnn {header.get('library_version')}; this is gbgnn "
            f"{__version__}, which reads up to format {WRAPPED_VERSION}. Upgrade: pip install -U gbgnn."
        )
    if version < OLDEST_VERSION:
        raise ModelFileError(
            f"{path} has format {version}, from before the first release, which gbgnn {__version__} does not "
            "read; fit again."
        )
    if metadata.get("sha256") != _digest(metadata["gbgnn"], tensors):
        raise ModelFileError(f"{path} is damaged: its contents do not match their checksum.")
    return header, tensors


def _digest(text: str, tensors: Tensors) -> str:
    """Return a checksum of the header and of every tensor's name, type, shape and bytes."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.contiguous().numpy().tobytes())
    return digest.hexdigest()
