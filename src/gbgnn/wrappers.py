"""What may be around a model in a file: calibrated probabilities, sets of classes, intervals of numbers."""

from __future__ import annotations

from typing import Any

from gbgnn.calibration import Calibrated, CalibratedModel
from gbgnn.conformal import PredictionIntervals, PredictionSets
from gbgnn.errors import ModelFileError
from gbgnn.predictor import Predictor, as_predictor

FORMAT_VERSION = 5
"""That of files with something around a model, which libraries up to format 4 cannot read."""

WRAPPERS: dict[str, type[Calibrated] | type[PredictionSets] | type[PredictionIntervals]] = {
    "calibrated": Calibrated,
    "sets": PredictionSets,
    "intervals": PredictionIntervals,
}

Layers = list[tuple[str, dict[str, Any]]]
"""The kind of what is around a model, and its record; the outermost first."""


def unwrap(model: Any) -> tuple[Layers, Predictor]:
    """Return what is around a fitted model, and the model."""
    layers: Layers = []
    while kinds := [kind for kind, wrapper in WRAPPERS.items() if isinstance(model, wrapper)]:
        layers.append((kinds[0], model.record()))
        model = model.model
    fitted = as_predictor(model)
    if isinstance(fitted, CalibratedModel):
        raise ModelFileError("a calibrated model is written with its settings: save(Calibrated(...), path).")
    return layers, fitted


def wrap(model: Any, layers: Layers) -> Any:
    """Put everything around a model again."""
    for kind, record in reversed(layers):
        model = WRAPPERS[kind].from_record(model, record)
    return model


def wrap_header(header: dict[str, Any], layers: Layers) -> dict[str, Any]:
    """Return the header of a file, which holds that of the model."""
    if not layers:
        return header
    around = [{"kind": kind, "record": record} for kind, record in layers]
    facts = {"format_version": FORMAT_VERSION, "library_version": header["library_version"]}
    return facts | {"around": around, "model": header}


def unwrap_header(header: dict[str, Any]) -> tuple[Layers, dict[str, Any]]:
    """Return what is around a model, and the header of the model."""
    if header["format_version"] != FORMAT_VERSION:
        return [], header
    return [(each["kind"], each["record"]) for each in header["around"]], header["model"]
