"""How sure a model is and how sure it may be: reliability, and sets or intervals that hold the truth."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from gbgnn.calibration import Calibrated
from gbgnn.conformal import PredictionIntervals, PredictionSets
from gbgnn.errors import GBGNNError, GBGNNWarning
from gbgnn.reliability import Reliability
from gbgnn.report.subject import Part, Subject

LEVELS = (0.9, 0.95)
METHODS = {"temperature": "one temperature", "graph": "temperatures by the graph"}
AS_IS = "as it is"


@dataclass(frozen=True, eq=False)
class Trust:
    """What was learned on held-out nodes and measured on test nodes; what is not known has a reason.

    Parameters
    ----------
    learned_on, measured_on
        The names of the parts, and how many nodes they have.
    reliability
        Of the model as it is, and calibrated by each method.
    maker
        What makes sets or intervals of the first level.
    quality
        How good these are, at each level.
    by_degree
        The same at the first level, by how many neighbours nodes have.
    caveats
        What is to be said of the promises: that they hold roughly only, that nodes were too few.
    """

    learned_on: tuple[str, int] = ("", 0)
    measured_on: tuple[str, int] = ("", 0)
    reliability: Mapping[str, Reliability] = field(default_factory=dict)
    maker: PredictionSets | PredictionIntervals | None = None
    quality: list[Any] = field(default_factory=list)
    by_degree: list[dict[str, Any]] = field(default_factory=list)
    caveats: list[str] = field(default_factory=list)
    why_not: Mapping[str, str] = field(default_factory=dict)


def measure_trust(subject: Subject) -> Trust:
    """Calibrate on held-out nodes that trained nothing, and measure on test nodes."""
    held, test = subject.part("calibration") or subject.part("val"), subject.part("test")
    if test is None:
        why = subject.why_no_data or "the split has no test nodes to measure it on."
        return Trust(why_not={"all": why})
    if subject.kind == "labels":
        return Trust(why_not={"all": "it is made for one class per node, and for numbers."})
    measured = (test.name, len(test.nodes))
    reliability = _reliability(subject, test) if subject.kind == "classes" else {}
    if held is None or held.graph is not test.graph:
        told = (
            "it takes held-out nodes, and the split has no validation nodes."
            if held is None
            else "validation and test nodes of inductive data come with graphs of their own."
        )
        return Trust(measured_on=measured, reliability=reliability, why_not={"held-out nodes": told})
    why_not: dict[str, str] = {}
    with _collect_warnings() as caveats:
        for method, name in METHODS.items() if subject.kind == "classes" else ():
            try:
                model = Calibrated(subject.model, method=method)
                model.fit(held.nodes, held.truth, graph=held.graph)
                reliability[name] = _measure(subject, test, model)
            except GBGNNError as error:
                why_not[name] = str(error)
        try:
            maker, quality, by_degree = _promise(subject, held, test)
        except GBGNNError as error:
            why_not["sets" if subject.kind == "classes" else "intervals"] = str(error)
            maker, quality, by_degree = None, [], []
    return Trust(
        learned_on=(held.name, len(held.nodes)),
        measured_on=measured,
        reliability=reliability,
        maker=maker,
        quality=quality,
        by_degree=by_degree,
        caveats=list(dict.fromkeys(caveats)),
        why_not=why_not,
    )


@contextmanager
def _collect_warnings() -> Iterator[list[str]]:
    """Give a list of what the library warns of meanwhile; other warnings go where they always go."""
    told: list[str] = []
    with warnings.catch_warnings():
        usual = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *rest: Any) -> None:
            if issubclass(category, GBGNNWarning):
                told.append(str(message))
            else:
                usual(message, category, *rest)

        warnings.simplefilter("always", GBGNNWarning)
        warnings.showwarning = show  # type: ignore[assignment]
        yield told


def _reliability(subject: Subject, test: Part) -> dict[str, Reliability]:
    proba = subject.answers[test.name].proba
    assert proba is not None
    is_right = subject.answers[test.name].predicted == test.truth
    return {AS_IS: Reliability.measure(proba.max(axis=1), is_right, n_bins=10)}


def _measure(subject: Subject, test: Part, model: Calibrated) -> Reliability:
    # The same nodes are right before and after: temperatures change how sure a model is and nothing else.
    sure = model.predict_proba(test.nodes, graph=test.graph).max(axis=1)
    is_right = subject.answers[test.name].predicted == test.truth
    return Reliability.measure(sure, is_right, n_bins=10)


def _promise(
    subject: Subject, held: Part, test: Part
) -> tuple[PredictionSets | PredictionIntervals, list[Any], list[dict[str, Any]]]:
    """Return what makes sets or intervals, and how good they are, at each level and by degree."""
    maker: PredictionSets | PredictionIntervals
    if subject.kind == "classes":
        maker = PredictionSets(subject.model, confidence=LEVELS[0], random_state=0)
    else:
        maker = PredictionIntervals(subject.model, confidence=LEVELS[0])
    maker.fit(held.nodes, held.truth, graph=held.graph)
    given: dict[str, Any] = {"graph": test.graph}
    quality = [maker.evaluate(test.nodes, test.truth, confidence=level, **given) for level in LEVELS]
    return maker, quality, maker.evaluate_by_degree(test.nodes, test.truth, **given)
