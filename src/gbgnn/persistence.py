"""Model files: one safetensors file, its header JSON, nothing in it that can run."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch

from gbgnn._files import atomic_path
from gbgnn._tuning import as_tuner
from gbgnn._version import __version__
from gbgnn.boosting import Ensemble, History, Round, StopReason
from gbgnn.errors import MissingDependencyError, ModelFileError, ParameterError
from gbgnn.finetuning import FineTuner
from gbgnn.learners import SklearnLearner
from gbgnn.propagation import GivenMatrix
from gbgnn.registry import FAMILIES, as_part, part_class, part_name

if TYPE_CHECKING:  # estimators.py imports this module when it saves
    from gbgnn.estimators import GBGNNClassifier

FORMAT_VERSION = 2
Tensors = dict[str, torch.Tensor]


def save(model: GBGNNClassifier, path: str | os.PathLike[str], *, learners: bool = True) -> None:
    """Write a fitted model; see :meth:`GBGNNClassifier.save <gbgnn.GBGNNClassifier.save>`."""
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model, "scores_")
    tensors: Tensors = {
        "scores": torch.from_numpy(np.ascontiguousarray(model.scores_)),
        "train.nodes": torch.from_numpy(model.train_nodes_),
        "train.targets": torch.from_numpy(model.train_targets_),
    }
    header = {
        "format_version": FORMAT_VERSION,
        "library_version": __version__,
        "params": _pack_params(model, tensors),
        "classes": {"dtype": str(model.classes_.dtype), "values": model.classes_.tolist()},
        "n_features": model.n_features_in_,
        "seed": model.seed_,
        "best_round": model.best_round_,
        "stop_reason": str(model.stop_reason_),
        "history": model.history_.rows,
        "is_soft": model.is_soft_,
        "fine_tuning": model.fine_tuning_,
        "rounds": [_pack_round(r, tensors, learners) for r in model.ensemble_],
    }
    text = json.dumps(header)
    metadata = {"gbgnn": text, "sha256": _digest(text, tensors)}
    with atomic_path(path) as part:
        _safetensors().torch.save_file(tensors, part, metadata=metadata)


def load(path: str | os.PathLike[str]) -> GBGNNClassifier:
    """Read a model file. Nothing in it is executed; a damaged or newer file is a clear error.

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
    try:
        return _unpack(header, tensors)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RuntimeError) as error:
        raise ModelFileError(f"{path} is damaged: its header does not fit ({error!r}).") from error


def read_header(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return the JSON header of a model file, checked like :func:`load` does."""
    return _read(Path(path))[0]


def _read(path: Path) -> tuple[dict[str, Any], Tensors]:
    if not path.is_file():
        raise ModelFileError(f"there is no model file {path}.")
    st = _safetensors()
    try:
        with st.safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            # Copied to where torch would have put them: products of arrays that begin elsewhere in memory
            # may differ in the last bit.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
    except (st.SafetensorError, OSError, ValueError) as error:
        raise ModelFileError(f"{path} is damaged, truncated or no model file ({error}).") from error
    if "gbgnn" not in metadata:
        raise ModelFileError(f"{path} is a safetensors file, but not one that gbgnn wrote.")
    try:
        header = json.loads(metadata["gbgnn"])
        version = int(header["format_version"])
    except (ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{path} is damaged: its header cannot be read.") from error
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path} has format {version}, written by gbgnn {header.get('library_version')}; this is gbgnn "
            f"{__version__}, which reads up to format {FORMAT_VERSION}. Upgrade: pip install -U gbgnn."
        )
    if version < FORMAT_VERSION:
        raise ModelFileError(
            f"{path} has format {version}, from before the first release, which gbgnn {__version__} does not "
            "read; fit again."
        )
    if metadata.get("sha256") != _digest(metadata["gbgnn"], tensors):
        raise ModelFileError(f"{path} is damaged: its contents do not match their checksum.")
    return header, tensors


def _unpack(header: dict[str, Any], tensors: Tensors) -> GBGNNClassifier:
    from gbgnn.estimators import GBGNNClassifier

    model = GBGNNClassifier(**_unpack_params(header["params"], tensors))
    classes = header["classes"]
    model.classes_ = np.array(classes["values"], dtype=classes["dtype"])
    model.n_features_in_ = int(header["n_features"])
    model.seed_ = int(header["seed"])
    model.best_round_ = int(header["best_round"])
    model.stop_reason_ = StopReason(header["stop_reason"])
    model.history_ = History(header["history"])
    model.is_soft_, model.fine_tuning_ = bool(header["is_soft"]), header["fine_tuning"]
    rounds = (_unpack_round(t, row, tensors) for t, row in enumerate(header["rounds"], start=1))
    model.ensemble_ = Ensemble(tuple(rounds))
    model.etas_ = np.array(model.ensemble_.etas)
    model.scores_ = tensors["scores"].numpy()
    model.train_nodes_, model.train_targets_ = (tensors[f"train.{k}"].numpy() for k in ("nodes", "targets"))
    model.graph_ = None
    return model


def _pack_round(trained: Round, tensors: Tensors, learners: bool) -> dict[str, Any]:
    hop = {"name": part_name("hop", trained.hop), "record": trained.hop.record()}
    _put(tensors, f"hop.{trained.t}.", trained.hop.state())
    head = None
    if learners and trained.head is not None:
        head = part_name("head", trained.head)
        _put(tensors, f"round.{trained.t}.", trained.head.state())
    return {"eta": trained.eta, "hop": hop, "head": head}


def _unpack_round(t: int, row: dict[str, Any], tensors: Tensors) -> Round:
    packed = row["hop"]
    hop = part_class("hop", packed["name"]).from_record(packed["record"], _take(tensors, f"hop.{t}."))
    head = None
    if row["head"] is not None:
        head = part_class("head", row["head"]).from_state(_take(tensors, f"round.{t}."))
    return Round(t, hop, head, float(row["eta"]))


def _put(tensors: Tensors, prefix: str, state: Tensors) -> None:
    tensors |= {f"{prefix}{name}": value.detach().cpu().contiguous() for name, value in state.items()}


def _take(tensors: Tensors, prefix: str) -> Tensors:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def _pack_params(model: GBGNNClassifier, tensors: Tensors) -> dict[str, Any]:
    params = dict(model.get_params(deep=False))
    params["callbacks"] = []  # they are code
    params["random_state"] = model.seed_
    params["device"] = str(params["device"])
    params["dtype"] = str(params["dtype"]).removeprefix("torch.")
    if isinstance(params["class_weight"], dict):
        params["class_weight"] = list(params["class_weight"].items())
    tuner = as_tuner(params["fine_tune"])
    params["fine_tune"] = None if tuner is None else tuner.get_params()
    for family in FAMILIES:
        if not isinstance(params[family], str):
            params[family] = _pack_part(family, as_part(family, params[family]), tensors)
    try:
        plain = json.loads(json.dumps(params, default=_plain))
    except TypeError as error:
        raise ModelFileError(f"a parameter cannot be stored as JSON: {error}.") from error
    assert isinstance(plain, dict)
    return plain


def _pack_part(family: str, part: Any, tensors: Tensors) -> dict[str, Any]:
    if isinstance(part, SklearnLearner):
        # The estimator is code; the predictions do not need it.
        return {"name": "sklearn", "params": {"estimator": None}}
    try:
        name = part_name(family, part)
    except ParameterError as error:
        raise ModelFileError(f"this model cannot be saved: {error}") from error
    params = part.get_params(deep=False)
    if isinstance(part, GivenMatrix) and part.matrix is not None:
        P = sp.csr_array(part.matrix)
        for key in ("data", "indices", "indptr"):
            tensors[f"propagation.{key}"] = torch.from_numpy(np.array(getattr(P, key)))
        params = {"matrix": list(P.shape)}
    return {"name": name, "params": params}


def _unpack_params(params: dict[str, Any], tensors: Tensors) -> dict[str, Any]:
    result = dict(params)
    if isinstance(result["class_weight"], list):
        result["class_weight"] = dict(result["class_weight"])
    if result["fine_tune"] is not None:
        result["fine_tune"] = FineTuner(**result["fine_tune"])
    for family in FAMILIES:
        packed = result[family]
        if isinstance(packed, dict):
            settings = dict(packed["params"])
            if settings.get("matrix") is not None:
                parts = (tensors[f"propagation.{k}"].numpy() for k in ("data", "indices", "indptr"))
                settings["matrix"] = sp.csr_array(tuple(parts), shape=tuple(settings["matrix"]))
            result[family] = part_class(family, packed["name"])(**settings)
    return result


def _digest(text: str, tensors: Tensors) -> str:
    """Return a checksum of the header and of every tensor's name, type, shape and bytes."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(f"{name} {value.dtype} {tuple(value.shape)}".encode())
        digest.update(value.contiguous().numpy().tobytes())
    return digest.hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{value!r} of type {type(value).__name__}")


def _safetensors() -> Any:
    try:
        import safetensors.torch
    except ImportError as error:
        raise MissingDependencyError("saving and loading models", "safetensors", "save") from error
    return safetensors
