from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gbgnn import Calibrated, PredictionIntervals, PredictionSets
from gbgnn.errors import GBGNNWarning
from gbgnn.reliability import Reliability
from gbgnn.report import Part, Subject
from gbgnn.report.evidence.trust import measure_trust


def test_validation_nodes_teach_and_test_nodes_show(classes: Subject) -> None:
    val, test = classes.part("val"), classes.part("test")
    found = measure_trust(classes)
    assert (found.learned_on, found.measured_on) == (("val", 10), ("test", 20))
    calibrated = Calibrated(classes.model).fit(val.nodes, val.truth)
    for name, model in (("as it is", classes.model), ("one temperature", calibrated.model_)):
        proba = model.predict_proba(test.nodes)
        wanted = Reliability.measure(proba.max(axis=1), model.predict(test.nodes) == test.truth, n_bins=10)
        assert found.reliability[name].ece == pytest.approx(wanted.ece)
    with pytest.warns(GBGNNWarning):
        sets = PredictionSets(classes.model, random_state=0).fit(val.nodes, val.truth)
    assert found.quality[0] == sets.evaluate(test.nodes, test.truth)
    with pytest.warns(GBGNNWarning, match="too few"):
        assert found.quality[1] == sets.evaluate(test.nodes, test.truth, confidence=0.95)
    assert found.caveats[0] == sets.caveat_
    assert len(found.caveats) == 2
    assert "too few for a confidence of 0.95" in found.caveats[1]
    assert sum(row["quality"].n_nodes for row in found.by_degree) == 20


def test_nodes_set_aside_for_calibration_come_first(classes: Subject) -> None:
    graph = classes.graph
    nodes = np.arange(50, 60)
    y = np.array(classes.titles * 20)[nodes]
    aside = Part("calibration", nodes, y, graph.node_ids[nodes])
    found = measure_trust(replace(classes, parts=(*classes.parts, aside)))
    assert found.learned_on == ("calibration", 10)
    assert not any("chosen" in caveat for caveat in found.caveats)  # they chose nothing


def test_numbers_have_intervals(numbers: Subject) -> None:
    val, test = numbers.part("val"), numbers.part("test")
    found = measure_trust(numbers)
    assert found.reliability == {}
    intervals = PredictionIntervals(numbers.model, confidence=0.9).fit(val.nodes, val.truth)
    assert found.quality[0] == intervals.evaluate(test.nodes, test.truth)


def test_what_is_not_measured_has_a_reason(classes: Subject, labels: Subject, bare: Subject) -> None:
    assert "one class per node" in measure_trust(labels).why_not["all"]
    assert measure_trust(bare).why_not["all"] == "the folder is gone."
    no_test = replace(classes, parts=classes.parts[:2])
    assert "no test nodes" in measure_trust(no_test).why_not["all"]
    no_val = measure_trust(replace(classes, parts=(classes.parts[0], classes.parts[2])))
    assert "no validation nodes" in no_val.why_not["held-out nodes"]
    assert list(no_val.reliability) == ["as it is"]


def test_parts_with_graphs_of_their_own_promise_nothing_of_each_other(classes: Subject) -> None:
    train, val, test = classes.parts
    own = replace(test, graph=classes.graph)
    found = measure_trust(replace(classes, parts=(train, val, own)))
    assert "graphs of their own" in found.why_not["held-out nodes"]


def test_a_class_that_training_never_saw_is_a_reason(classes: Subject) -> None:
    train, val, test = classes.parts
    truth = test.truth.copy()
    truth[0] = "new"
    found = measure_trust(replace(classes, parts=(train, val, replace(test, truth=truth))))
    assert "new" in found.why_not["sets"]
    assert found.quality == []
