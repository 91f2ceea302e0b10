from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gbgnn.report import Subject
from gbgnn.report.evidence.nodes import list_nodes
from gbgnn.report.evidence.reasons import explain_nodes, find_reasons


def test_shares_are_those_of_the_model(classes: Subject) -> None:
    found = find_reasons(classes)
    test = classes.part("test").nodes
    assert found.n_nodes == 20
    assert found.shares == classes.model.scale_shares(test)
    assert found.columns == classes.model.column_importances()
    assert (found.responses.values == classes.model.response_curves().values).all()
    assert found.why_not == {}


def test_parts_of_a_node_add_up_to_its_lead(classes: Subject) -> None:
    group = list_nodes(classes, 1000).groups[0]
    found = explain_nodes(classes, group, 0)
    scores = np.sort(classes.model.find_scores(group.nodes).cpu().numpy().astype(float), axis=1)
    lead = scores[:, -1] - scores[:, -2]
    assert found.kind == "distances"
    assert [sum(value for _, value in pairs) for pairs in found.parts] == pytest.approx(lead, abs=1e-5)


def test_an_average_is_taken_apart_by_distance(average: Subject) -> None:
    group = list_nodes(average, 1000).groups[0]
    found = explain_nodes(average, group, 5)
    lead = np.diff(np.sort(average.model.predict_proba(group.nodes), axis=1)[:, -2:], axis=1)[:, 0]
    assert found.kind == "distances"
    assert [sum(value for _, value in pairs) for pairs in found.parts] == pytest.approx(lead, abs=1e-5)
    assert set(found.decided_by) <= {"own columns", "1 hop", "2 hops"}
    assert "responses" in find_reasons(average).why_not


def test_numbers_are_explained_in_units_of_the_score(numbers: Subject) -> None:
    group = list_nodes(numbers, 1000).groups[0]
    found = explain_nodes(numbers, group, 0)
    scores = numbers.model.find_scores(group.nodes).cpu().numpy()[:, 0]
    assert [sum(value for _, value in pairs) for pairs in found.parts] == pytest.approx(scores, abs=1e-5)


def test_a_run_without_data_says_why(bare: Subject) -> None:
    assert find_reasons(bare).why_not == {"all": "the folder is gone."}


def test_a_model_without_its_learners_says_why(classes: Subject) -> None:
    rounds = tuple(replace(each, head=None) for each in classes.model.ensemble.rounds)
    bare = replace(classes.model, ensemble=replace(classes.model.ensemble, rounds=rounds))
    subject = replace(classes, model=bare)
    why = find_reasons(subject).why_not
    assert "learners" in why["shares"]
    group = list_nodes(subject, 5).groups[0]
    assert explain_nodes(subject, group, 5).parts == [[] for _ in group.nodes]
