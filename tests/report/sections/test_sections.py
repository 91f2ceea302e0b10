from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gbgnn import GBGNNClassifier, holdout_bound
from gbgnn.report import Subject
from gbgnn.report.content import Section
from gbgnn.report.evidence.nodes import list_nodes
from gbgnn.report.evidence.reasons import explain_nodes
from gbgnn.report.evidence.trust import Trust, measure_trust
from gbgnn.report.sections import describe
from gbgnn.report.sections.comparison import compare
from gbgnn.report.sections.errors import describe_errors
from gbgnn.report.sections.nodes import describe_nodes
from gbgnn.report.sections.quality import describe_quality
from gbgnn.report.sections.smoothing import describe_smoothing
from gbgnn.report.sections.training import describe_training
from gbgnn.report.words import counted, listed, number, percent

from ..conftest import SPLIT

KINDS = ("classes", "labels", "numbers", "average", "bare")


@pytest.mark.parametrize("kind", KINDS)
def test_every_run_has_every_section(kind: str, request: pytest.FixtureRequest) -> None:
    page = describe(request.getfixturevalue(kind), 20)
    keys = [section.key for section in page.sections]
    assert len(keys) == len(set(keys))
    assert keys == [section.key for section in describe(request.getfixturevalue("classes"), 20).sections]
    for section in page.sections:
        shown = (section.figures, section.tables, section.codes, section.nodes)
        assert section.missing or section.paragraphs or any(shown), section.key
        for figure in section.figures:
            assert len(figure.alt) > 20
            assert figure.alt != figure.title
        for table in section.tables:
            assert all(len(row) == len(table.heads) for row in table.rows), table.caption


def test_the_headline_says_how_many_are_right(classes: Subject) -> None:
    test = classes.part("test")
    right = 100 * (classes.model.predict(test.nodes) == test.truth).mean()
    assert (
        describe(classes, 0)
        .headline[0]
        .startswith(f"{right:.1f} % of the 20 test nodes are predicted rightly")
    )


def test_the_guarantee_is_that_of_the_held_out_nodes(classes: Subject) -> None:
    test = classes.part("test")
    bound = holdout_bound(classes.model, test.nodes, test.truth, split=SPLIT)
    page = describe(classes, 0)
    assert page.headline[1].startswith(bound.sentence.rstrip(".").replace("with", "With", 1))
    assert "assumes that the nodes held out are a uniform draw" in page.headline[1]
    section = next(section for section in page.sections if section.key == "guarantee")
    by_class = section.tables[0]
    assert [row[0] for row in by_class.rows] == [classes.title(each.label) for each in bound.per_class]
    assert sum(int(row[2]) for row in by_class.rows) == bound.n_others == 10


def test_numbers_have_no_such_guarantee(numbers: Subject) -> None:
    section = next(section for section in describe(numbers, 0).sections if section.key == "guarantee")
    assert "errors are counted of classes" in section.missing[0]


def test_what_data_is_missing_is_said(bare: Subject) -> None:
    told = [text for section in describe(bare, 20).sections for text in section.missing]
    assert "The data of this run is not at hand: the folder is gone." in told
    assert describe_quality(bare).tables[0].rows[0][:3] == ["test", "20", "0.8500"]


def test_an_average_shows_what_was_tried(average: Subject) -> None:
    section = describe_training(average)
    captions = [table.caption for table in section.tables]
    assert captions[0] == "Members"
    assert len(section.tables[1].rows) == len(average.model.leaderboard)


def test_fine_tuning_has_curves_of_its_own(classes: Subject) -> None:
    graph = classes.graph
    y = np.arange(60) % 3
    model = GBGNNClassifier(preset="fast", n_rounds=2, fine_tune=True, random_state=0)
    model.set_params(fine_tune__epochs=3).fit(range(30), y[:30], graph=graph, validation=([40, 41], y[40:42]))
    section = describe_training(replace(classes, model=model.model_))
    assert any(figure.title.startswith("Fine-tuning: Loss") for figure in section.figures)
    assert any("epochs of fine-tuning" in text for text in section.paragraphs)


def test_the_table_of_nodes_says_which_are_wrong(classes: Subject) -> None:
    table = describe_nodes(classes, 1000, Trust()).nodes
    keys = [column["key"] for column in table["columns"]]
    rows = [dict(zip(keys, row, strict=True)) for row in table["rows"]]
    assert len(rows) == len(table["details"]) == 60
    test = classes.part("test")
    wrong = {
        str(i)
        for i, bad in zip(test.ids, test.truth != classes.model.predict(test.nodes), strict=True)
        if bad
    }
    assert {row["id"] for row in rows if row["part"] == "test" and row["outcome"] == "wrong"} == wrong
    assert all(
        row["outcome"] == "unknown" and row["truth"] is None for row in rows if row["part"] == "no part"
    )
    probable = table["details"][0][0]
    assert [value for _, value in probable] == sorted((value for _, value in probable), reverse=True)
    assert rows[0]["sure"] == probable[0][1]


def test_numbers_have_errors_in_the_table(numbers: Subject) -> None:
    table = describe_nodes(numbers, 1000, Trust()).nodes
    assert [column["key"] for column in table["columns"]][2:5] == ["truth", "predicted", "error"]
    for row in table["rows"]:
        assert (row[4] is None) == (row[2] is None)
        if row[2] is not None:
            assert row[4] == pytest.approx(row[3] - row[2])


def test_labels_are_listed_with_commas(labels: Subject) -> None:
    table = describe_nodes(labels, 1000, Trust()).nodes
    test = labels.part("test")
    first = test.truth[0]
    wanted = ", ".join(name for name, has in zip(labels.titles, first, strict=True) if has)
    assert table["rows"][0][2] == wanted


def test_runs_on_different_nodes_are_not_compared_strictly(classes: Subject, bare: Subject) -> None:
    told = " ".join(compare([classes, bare]).paragraphs)
    assert "cannot be compared strictly" in told
    same = " ".join(compare([classes, replace(classes, name="again")]).paragraphs)
    assert "cannot be compared strictly" not in same


def test_runs_of_different_kinds_have_a_table_only(classes: Subject, numbers: Subject) -> None:
    section = compare([classes, numbers])
    assert section.figures == []
    assert [row[1] for row in section.tables[0].rows] == ["accuracy", "R2"]


def test_a_run_without_test_nodes_shows_errors_of_validation_nodes(classes: Subject) -> None:
    without = replace(classes, parts=classes.parts[:2])
    assert "10 validation nodes" in describe_errors(without).paragraphs[0]
    nothing: Section = describe_errors(replace(classes, parts=classes.parts[:1]))
    assert nothing.missing


def test_large_graphs_are_not_smoothed(classes: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gbgnn.report.sections.smoothing.MOST_WORK", 10)
    assert "gbgnn smoothing" in describe_smoothing(classes).missing[0]


def test_words() -> None:
    assert (percent(0.1234), percent(None), percent(float("nan"))) == ("12.3 %", "-", "-")
    assert (number(1234), number(0.5), number(None)) == ("1,234", "0.5", "-")
    assert (counted(1, "node"), counted(2, "class", "classes")) == ("1 node", "2 classes")
    assert (listed([]), listed(["a"]), listed(["a", "b", "c"])) == ("", "a", "a, b and c")


def test_every_row_says_what_decided_and_its_set(classes: Subject) -> None:
    trust = measure_trust(classes)
    table = describe_nodes(classes, 1000, trust).nodes
    keys = [column["key"] for column in table["columns"]]
    assert keys[-2:] == ["set", "decided"]
    test = classes.part("test")
    sets = trust.maker.predict_set(test.nodes)
    for row, own in zip(table["rows"], sets, strict=False):
        assert row[-2] == (
            ", ".join(name for name, has in zip(classes.titles, own, strict=True) if has) or "none"
        )
    assert [row[-1] for row in table["rows"][:20]] == classes.model.contributions(test.nodes).decided_by
    titles = [block["title"] for block in table["blocks"]]
    assert titles[1] == "By distance along the graph"


def test_numbers_have_the_ends_of_their_interval(numbers: Subject) -> None:
    trust = measure_trust(numbers)
    table = describe_nodes(numbers, 1000, trust).nodes
    keys = [column["key"] for column in table["columns"]]
    assert keys[5:7] == ["low", "high"]
    ends = trust.maker.predict_interval(SPLIT.test)
    shown = np.array([[np.inf if cell is None else cell for cell in row[5:7]] for row in table["rows"][:20]])
    assert np.abs(shown) == pytest.approx(np.abs(np.where(np.isfinite(ends), ends, np.inf)))


def test_neighbours_are_those_of_the_graph(classes: Subject) -> None:
    group = list_nodes(classes, 1000).groups[0]
    found = explain_nodes(classes, group, 0)
    graph = classes.graph
    for node, own in zip(group.nodes, found.neighbours, strict=True):
        wanted = {str(graph.node_ids[other]) for other in graph.adjacency[[node]].indices}
        assert {name for name, _ in own} <= wanted
        assert len(own) == min(len(wanted), 8)
    said = dict(pair for own in found.neighbours for pair in own)
    all_said = classes.model.predict(np.arange(60))
    ids = list(map(str, graph.node_ids))
    assert all(said[name] == all_said[ids.index(name)] for name in said)
    assert found.columns == [[]] * len(group.nodes)


def test_many_sections_are_words_of_numbers(classes: Subject) -> None:
    section = next(section for section in describe(classes, 0).sections if section.key == "trust")
    trust = measure_trust(classes)
    coverage = trust.quality[0].coverage
    assert f"Measured: {100 * coverage:.1f} % of 20 nodes" in " ".join(section.paragraphs)
    assert [table.caption for table in section.tables] == ["Calibration", "Sets of classes"]
    assert set(trust.caveats) <= set(section.paragraphs)


def test_columns_with_names_are_explained(classes: Subject) -> None:
    table = describe_nodes(classes, 1000, Trust()).nodes
    attributions = classes.model.attributions(classes.part("test").nodes[:1])
    names, values = zip(*table["details"][0][2], strict=True)
    wanted = dict(attributions.top(0, 8))
    assert list(names) == list(wanted)
    assert list(values) == pytest.approx(list(wanted.values()), rel=1e-4)  # of one node or of fifty
    assert all(detail[2] for detail in table["details"][:50])
    assert not any(detail[2] for detail in table["details"][50:])
