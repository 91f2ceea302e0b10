"""A fitted model as a header that JSON can hold and tensors by name, and an estimator made of both again."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
import torch
from sklearn.base import BaseEstimator

from gbgnn._files import as_plain
from gbgnn._version import __version__
from gbgnn.blend import BlendedModel, BlendMember
from gbgnn.boosting import Ensemble, History, Round, StopReason
from gbgnn.boosting.history import without_measurements
from gbgnn.errors import ModelFileError, ParameterError
from gbgnn.features import Neighbourhood
from gbgnn.finetuning import as_fine_tuner
from gbgnn.fitting import input_recipe, resolve_rule
from gbgnn.learners import SklearnLearner
from gbgnn.losses import Loss
from gbgnn.metrics import Metric, Scorer
from gbgnn.model import FittedModel
from gbgnn.predictor import Predictor
from gbgnn.problem import InputRecipe, LabelledNodes
from gbgnn.propagation import GivenMatrix
from gbgnn.registry import INNER_PARTS, PARAMETERS, as_device, as_dtype, as_part, part_class, part_name
from gbgnn.settings import FINE_TUNE, build_model
from gbgnn.soundness import check_sound
from gbgnn.storage import find_storage
from gbgnn.tables import TableEncoder
from gbgnn.tasks import Classification

if TYPE_CHECKING:  # base_estimator.py imports this module
    from gbgnn.base_estimator import GBGNNEstimator

FORMAT_VERSION = 3
BLEND_VERSION = 4
"""That of files with several models, which libraries up to format 3 cannot read; one model stays format 3."""

Tensors = dict[str, torch.Tensor]


def pack(model: FittedModel | BlendedModel, learners: bool) -> tuple[dict[str, Any], Tensors]:
    """Return the header and the tensors of a model, or of an average."""
    return _pack_blend(model, learners) if isinstance(model, BlendedModel) else _pack_model(model, learners)


def _pack_model(model: FittedModel, learners: bool) -> tuple[dict[str, Any], Tensors]:
    """Return the header and the tensors of one model."""
    tensors: Tensors = {
        "train.nodes": model.train.rows.cpu(),
        "train.targets": model.train.targets.cpu(),
        "train.weights": model.train.weights.cpu(),
    }
    if model.kept_scores is not None:
        tensors["scores"] = model.kept_scores.detach().cpu().contiguous()
    if model.validation_nodes is not None:
        tensors["validation.nodes"] = torch.from_numpy(model.validation_nodes.copy())
    header = {
        "format_version": FORMAT_VERSION,
        "library_version": __version__,
        "params": _pack_params(model, tensors),
        "task": _pack_record("task", model.task),
        "loss": _pack_part("loss", model.loss, tensors),
        "voting": _pack_record("voting", model.voting),
        "metric": model.metric.name,
        "inputs": _pack_inputs(model.inputs, model.n_features_in, tensors),
        "depends_on": dict(model.depends_on),
        "graph": model.graph_checksum,
        **({} if model.kept_scores is not None else {"n_nodes": model.n_nodes}),
        "seed": model.seed,
        "best_round": model.best_round,
        "stop_reason": str(model.stop_reason),
        "history": without_measurements(model.history.rows),
        "fine_tuning": _pack_fine_tuning(model),
        "rounds": [_pack_round(r, tensors, learners) for r in model.ensemble],
    }
    return header, tensors


def _pack_blend(model: BlendedModel, learners: bool) -> tuple[dict[str, Any], Tensors]:
    """Return the header of an average, with those of its members in it, and the tensors of all."""
    tensors: Tensors = {}
    header: dict[str, Any] = {
        "format_version": BLEND_VERSION,
        "library_version": __version__,
        "params": _pack_params(model, tensors),
        "task": _pack_record("task", model.task),
        "loss": _pack_part("loss", model.loss, tensors),
        "metric": model.metric.name,
        "graph": model.graph_checksum,
        "seed": model.seed,
        "validation_score": model.validation_score,
        "validation_loss": model.validation_loss,
        "leaderboard": without_measurements(model.leaderboard),
        "members": [],
    }
    for i, own in enumerate(model.members):
        packed, more = _pack_model(own.model, learners)
        _put(tensors, f"member.{i}.", {name: each.clone() for name, each in more.items()})  # some share
        facts = {"name": own.name, "weight": own.weight, "temperature": own.temperature, "model": packed}
        header["members"].append(facts)
    return header, tensors


def _pack_fine_tuning(model: FittedModel) -> dict[str, Any] | None:
    done = model.fine_tuning
    return None if done is None else {**done, "history": without_measurements(done["history"])}


def unpack(header: dict[str, Any], tensors: Tensors) -> GBGNNEstimator:
    """Return the estimator of a header and its tensors; what does not fit raises something."""
    estimator = _unpack_params(header["params"], tensors)
    if "members" in header:
        estimator.model_ = _unpack_blend(header, tensors, estimator)
        return estimator
    if header["format_version"] == 2:
        header = _as_version_3(header, tensors, estimator)
    inputs, loss = header["inputs"], _unpack_part("loss", header["loss"], tensors)
    voting, task = header["voting"], header["task"]
    rounds = (_unpack_round(t, row, tensors) for t, row in enumerate(header["rounds"], start=1))
    nodes, targets, weights = (tensors[f"train.{name}"] for name in ("nodes", "targets", "weights"))
    device = torch.device(inputs["device"])
    if device.type == "cuda" and not torch.cuda.is_available():
        device = as_device("auto")  # another machine than that of the fit
    fitted = FittedModel(
        task=part_class("task", task["name"]).from_record(task["record"]),
        loss=loss,
        voting=part_class("voting", voting["name"]).from_record(voting["record"], loss),
        metric=_known_metric(header["metric"]),
        ensemble=Ensemble(tuple(rounds)),
        best_round=int(header["best_round"]),
        kept_scores=tensors.get("scores"),
        n_nodes=len(tensors["scores"]) if "scores" in tensors else int(header["n_nodes"]),
        history=History(header["history"], header["metric"]),
        stop_reason=StopReason(header["stop_reason"]),
        inputs=InputRecipe(
            _unpack_part("propagation", inputs["propagation"], tensors),
            inputs["feature_norm"],
            torch.device("cpu"),
            as_dtype(inputs["dtype"]),
            _unpack_encoder(inputs.get("encoder"), tensors),
            None if inputs.get("column_names") is None else tuple(inputs["column_names"]),
            None if inputs.get("neighbourhood") is None else Neighbourhood(**inputs["neighbourhood"]),
            int(inputs.get("n_targets", 0)),
            bool(inputs.get("takes_gaps", False)),
            bool(inputs.get("hears_labels", inputs.get("neighbourhood") is not None)),
        ),
        n_features_in=int(inputs["n_features"]),
        train=LabelledNodes(nodes, targets, weights),
        seed=int(header["seed"]),
        settings={name: copy.copy(value) for name, value in estimator.get_params(deep=False).items()},
        depends_on=header["depends_on"],
        fine_tuning=header["fine_tuning"],
        stored_checksum=header["graph"],
        validation_nodes=tensors["validation.nodes"].numpy() if "validation.nodes" in tensors else None,
        storage=find_storage(estimator),
    )
    check_sound(fitted)
    estimator.model_ = fitted.with_device(device)
    return estimator


def _unpack_blend(header: dict[str, Any], tensors: Tensors, estimator: GBGNNEstimator) -> BlendedModel:
    members = [
        BlendMember(
            name=own["name"],
            model=unpack(own["model"], _take(tensors, f"member.{i}.")).model_,
            weight=float(own["weight"]),
            temperature=float(own["temperature"]),
        )
        for i, own in enumerate(header["members"])
    ]
    task = header["task"]
    return BlendedModel(
        task=part_class("task", task["name"]).from_record(task["record"]),
        loss=_unpack_part("loss", header["loss"], tensors),
        metric=_known_metric(header["metric"]),
        members=tuple(members),
        leaderboard=header["leaderboard"],
        seed=int(header["seed"]),
        settings={name: copy.copy(value) for name, value in estimator.get_params(deep=False).items()},
        validation_score=float(header["validation_score"]),
        validation_loss=float(header["validation_loss"]),
    )


def _as_version_3(header: dict[str, Any], tensors: Tensors, estimator: GBGNNEstimator) -> dict[str, Any]:
    """Return the header of a file of format 2 as one of format 3, which names what predicts."""
    classes, nodes = header["classes"], tensors["train.nodes"]
    task = Classification(classes=np.array(classes["values"], dtype=classes["dtype"]))
    rule = resolve_rule(estimator)
    voting = rule.voting_for(task)
    voting = voting.softened() if header["is_soft"] else voting
    tensors["train.weights"] = torch.full((len(nodes),), 1 / len(nodes), dtype=torch.float64)
    return header | {
        "task": _pack_record("task", task),
        "loss": _pack_part("loss", rule.loss_for(task), tensors),
        "voting": _pack_record("voting", voting),
        "metric": "accuracy",
        "inputs": _pack_inputs(input_recipe(estimator, task), header["n_features"], tensors),
        "depends_on": {},
        "graph": None,
    }


def _known_metric(name: str) -> Metric:
    """Return the metric of a name; a function of the user's own stays a name, which cannot judge."""
    try:
        metric: Metric = as_part("metric", name)
    except ParameterError:
        return Scorer(_forgotten, name)
    return metric


def _forgotten(*_: Any) -> float:
    raise ValueError("it is a function that a model file does not hold; give the metric again and fit")


def _pack_round(trained: Round, tensors: Tensors, learners: bool) -> dict[str, Any]:
    _put(tensors, f"hop.{trained.t}.", trained.hop.state())
    head = None
    if learners and trained.head is not None:
        head = part_name("head", trained.head)
        _put(tensors, f"round.{trained.t}.", trained.head.state())
    row = {"eta": trained.eta, "hop": _pack_record("hop", trained.hop), "head": head}
    if head is not None and trained.head is not None and trained.head.chosen is not None:
        row["chosen"] = trained.head.chosen
    return row


def _pack_record(family: str, fitted: Any) -> dict[str, Any]:
    return {"name": part_name(family, fitted), "record": fitted.record()}


def _unpack_round(t: int, row: dict[str, Any], tensors: Tensors) -> Round:
    packed = row["hop"]
    hop = part_class("hop", packed["name"]).from_record(packed["record"], _take(tensors, f"hop.{t}."))
    head = None
    if row["head"] is not None:
        head = part_class("head", row["head"]).from_state(_take(tensors, f"round.{t}."))
        head.chosen = row.get("chosen")
    return Round(t, hop, head, float(row["eta"]))


def _put(tensors: Tensors, prefix: str, state: Tensors) -> None:
    tensors |= {f"{prefix}{name}": value.detach().cpu().contiguous() for name, value in state.items()}


def _take(tensors: Tensors, prefix: str) -> Tensors:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def _pack_params(model: Predictor, tensors: Tensors) -> dict[str, Any]:
    params = dict(model.settings)
    params["callbacks"] = []  # they are code
    params["warm_start"] = False  # whoever loads a model and fits other data wants other rounds
    params["work_folder"] = None  # a place on this machine, and no part of what was learned
    params["random_state"] = model.seed
    params["metric"] = params["metric"] if isinstance(params["metric"], str) else model.metric.name
    params["task"] = part_name("task", model.task)  # what it knows of y stands by itself
    params["device"] = str(params["device"])
    params["dtype"] = str(params["dtype"]).removeprefix("torch.")
    if isinstance(params.get("class_weight"), dict):
        params["class_weight"] = list(params["class_weight"].items())
    if isinstance(params.get("loss"), Loss):
        params["loss"] = _pack_part("loss", params["loss"], tensors)
    tuner = as_fine_tuner(params["fine_tune"])
    params["fine_tune"] = None if tuner is None else tuner.get_params()
    for family in PARAMETERS:
        if not isinstance(params[family], str):
            params[family] = _pack_part(family, as_part(family, params[family]), tensors)
    plain: dict[str, Any] = as_plain(params, unknown=refuse_value)
    return plain


def _pack_inputs(recipe: InputRecipe, n_features: int, tensors: Tensors) -> dict[str, Any]:
    return {
        "propagation": _pack_part("propagation", recipe.propagation, tensors),
        "feature_norm": recipe.feature_norm,
        "dtype": str(recipe.dtype).removeprefix("torch."),
        "device": str(recipe.device),
        "n_features": n_features,
        "column_names": recipe.column_names,
        "encoder": _pack_encoder(recipe.encoder, tensors),
        "neighbourhood": None if recipe.neighbourhood is None else recipe.neighbourhood.get_params(),
        "n_targets": recipe.n_targets,
        "takes_gaps": recipe.takes_gaps,
        "hears_labels": recipe.hears_labels,
    }


def _pack_encoder(encoder: TableEncoder | None, tensors: Tensors) -> dict[str, Any] | None:
    if encoder is None:
        return None
    _put(
        tensors, "encoder.", {name: torch.from_numpy(array.copy()) for name, array in encoder.state().items()}
    )
    return encoder.record()


def _unpack_encoder(record: dict[str, Any] | None, tensors: Tensors) -> TableEncoder | None:
    if record is None:
        return None
    arrays = {name: tensor.numpy() for name, tensor in _take(tensors, "encoder.").items()}
    return TableEncoder.from_record(record, arrays)


def _pack_part(family: str, part: Any, tensors: Tensors) -> dict[str, Any]:
    if isinstance(part, SklearnLearner):
        # The estimator is code; the predictions do not need it.
        return {"name": "sklearn", "params": {"estimator": None}}
    try:
        name = part_name(family, part)
    except ParameterError as error:
        raise ModelFileError(f"this model cannot be saved: {error}") from error
    params = part.get_params(deep=False)
    for inner, kind in INNER_PARTS.items():
        if isinstance(params.get(inner), BaseEstimator):
            params[inner] = _pack_part(kind, params[inner], tensors)
    if isinstance(part, GivenMatrix) and part.matrix is not None:
        P = sp.csr_array(part.matrix)
        for key in ("data", "indices", "indptr"):
            tensors[f"propagation.{key}"] = torch.from_numpy(np.array(getattr(P, key)))
        params = {"matrix": list(P.shape)}
    return {"name": name, "params": params}


def _unpack_params(params: dict[str, Any], tensors: Tensors) -> GBGNNEstimator:
    settings = dict(params)
    if isinstance(settings.get("class_weight"), list):
        settings["class_weight"] = dict(settings["class_weight"])
    if isinstance(settings.get("loss"), dict):
        settings["loss"] = _unpack_part("loss", settings["loss"], tensors)
    tuner = settings[FINE_TUNE]
    settings |= {FINE_TUNE: tuner is not None} | {f"{FINE_TUNE}__{k}": v for k, v in (tuner or {}).items()}
    packed = {family: params[family] for family in PARAMETERS if isinstance(params.get(family), dict)}
    settings |= {family: _unpack_part(family, part, tensors) for family, part in packed.items()}
    estimator: GBGNNEstimator = build_model(settings)
    return estimator


def _unpack_part(family: str, packed: dict[str, Any], tensors: Tensors) -> Any:
    settings = dict(packed["params"])
    if settings.get("matrix") is not None:
        parts = (tensors[f"propagation.{k}"].numpy() for k in ("data", "indices", "indptr"))
        settings["matrix"] = sp.csr_array(tuple(parts), shape=tuple(settings["matrix"]))
    for inner, kind in INNER_PARTS.items():
        if isinstance(settings.get(inner), dict):
            settings[inner] = _unpack_part(kind, settings[inner], tensors)
    return part_class(family, packed["name"])(**settings)


def refuse_value(value: Any) -> Any:
    """Raise: JSON has no way to write this."""
    raise ModelFileError(f"a parameter cannot be stored as JSON: {value!r} of type {type(value).__name__}.")
