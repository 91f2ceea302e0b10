from __future__ import annotations

import numpy as np
import pytest
import torch

from gbgnn import GBGNNClassifier
from gbgnn.losses import SoftmaxCrossEntropy
from gbgnn_lab.experiments.figures import FIGURES, FLOOR, GRADIENT, draw_curves, find_settings, trace_rounds
from gbgnn_lab.experiments.jobs import run_jobs
from gbgnn_lab.experiments.options import Options
from gbgnn_lab.experiments.records import Record, identify_data, open_records, read_records

SETTINGS = {"rule": "samme", "n_rounds": 4, "learner__epochs": 30, "learner__units": 8}


def test_the_test_loss_is_that_of_the_model_stopped_at_each_round(tiny):
    results = trace_rounds(tiny, SETTINGS, "cpu", 1).results
    targets = torch.as_tensor(np.searchsorted(tiny.classes, tiny.y[tiny.test]))
    for t in range(1, 5):
        model = GBGNNClassifier().set_params(**SETTINGS | {"n_rounds": t}, random_state=1, select="last")
        model.fit(tiny.train, tiny.y[tiny.train], graph=tiny.graph)
        scores = torch.from_numpy(model.scores_[tiny.test])
        loss = float(SoftmaxCrossEntropy().mean(scores, targets))
        assert results["test_loss"][t - 1] == pytest.approx(loss, rel=1e-5)
        assert results["train_loss"][t - 1] == pytest.approx(model.history_["train_loss"][-1], rel=1e-5)
        assert results["cosine"][t - 1] == pytest.approx(model.history_["cosine"][-1], rel=1e-5)


def test_test_labels_change_the_test_loss_and_nothing_else(tiny, scrambled):
    told, other = (trace_rounds(data, SETTINGS, "cpu", 0).results for data in (tiny, scrambled))
    assert told.pop("test_loss") != other.pop("test_loss")
    assert told == other


def searched(data, layers, accuracy):
    cell = {"variant": "adj", "hidden_layers": layers, "fine_tune": False, "run": 0}
    return Record(
        {**identify_data(data), **cell}, settings={"learner__units": 9}, results={"search_accuracy": accuracy}
    )


def test_settings_are_those_of_the_search_where_there_was_one(tiny, scrambled):
    records = [searched(tiny, 1, 0.8), searched(scrambled, 2, 0.8)]
    known = identify_data(tiny)
    assert find_settings("adj", 1, known, records) == ({"learner__units": 9}, {"from": "search"})
    parts, where = find_settings("adj", 2, known, records)
    assert (parts["rule"], parts["learner__hidden_layers"], where) == ("samme", 2, {"from": "defaults"})
    own, where = find_settings(GRADIENT, 3, known, records)
    assert (own, where["from"]) == ({"learner": "mlp", "learner__hidden_layers": 3}, "defaults")


def test_the_experiment_draws_every_rule(tiny, tmp_path):
    asked = FIGURES.choose(Options(quick=True, layers=(0, 1), out=tmp_path))
    (jobs,) = FIGURES.stages({tiny.name: tiny}, asked)
    assert {identity["settings"]["n_rounds"] for job in jobs for identity in job.identities} == {15}
    run_jobs(jobs, open_records(tmp_path, "figures"))
    page = FIGURES.tabulate(read_records(tmp_path, "figures"))
    assert [row[1].text for row in page.tables[0].rows] == ["0", "1", "0", "1"]
    rounds = sum(len(record.results["cosine"]) for record in read_records(tmp_path, "figures"))
    assert len(page.data) == rounds
    assert set(page.data[0]) == {
        "kind",
        "dataset",
        "hidden_layers",
        "run",
        "round",
        "train_loss",
        "test_loss",
        "cosine",
    }
    assert list(FIGURES.draw(read_records(tmp_path, "figures"))) == ["curves-adj.png", "curves-gradient.png"]


def test_figure_1_is_of_citeseer(tmp_path):
    curve = {"train_loss": [0.9, 0.5], "test_loss": [1.0, 0.8], "cosine": [0.9, -0.1]}
    place = {"dataset": "citeseer", "kind": "adj", "hidden_layers": 1, "settings": {"from": "search"}}
    open_records(tmp_path, "figures").append(Record({**place, "run": 0}, results=curve))
    open_records(tmp_path, "figures").append(Record({**place, "run": 1}, failure="no learner"))
    open_records(tmp_path, "figures").append(
        Record({**place, "hidden_layers": 4, "run": 0}, failure="no learner")
    )
    assert list(FIGURES.draw(read_records(tmp_path, "figures"))) == ["curves-adj.png", "figure1.png"]
    page = FIGURES.tabulate(read_records(tmp_path, "figures"))
    assert [row[2].text for row in page.tables[0].rows] == ["0.5 / 0.8, 1 of 2", "failed"]
    assert "Failed, 2 runs: no learner" in page.notes
    assert page.notes[0].startswith("Settings of the paper's variants: the best search in table1 or table4; ")


def curve(dataset, layers, run, losses):
    results = {"train_loss": losses, "test_loss": losses, "cosine": np.cos(losses).tolist()}
    return Record({"dataset": dataset, "hidden_layers": layers, "run": run}, results=results)


def labels(figure):
    (legend,) = figure.legends
    return [text.get_text() for text in legend.get_texts()]


def test_a_row_per_data_set_in_the_papers_order_and_a_line_per_layer():
    records = [
        curve("mine", 1, 0, [2.0, 1.0]),
        curve("pubmed", 3, 0, [2.0, 1.0]),
        curve("cora", 0, 0, [2.0, 1.0]),
    ]
    figure = draw_curves(records, "Adj")
    assert [axes.get_title(loc="left") for axes in figure.axes[::3]] == [
        "Cora: training loss",
        "PubMed: training loss",
        "mine: training loss",
    ]
    assert labels(figure) == ["L = 0", "L = 1", "L = 3"]
    assert [len(axes.lines) for axes in figure.axes[:3]] == [1, 1, 2]  # the cosine has a line at zero


def test_a_line_is_the_mean_of_runs_as_far_as_all_have_come():
    figure = draw_curves([curve("cora", 1, 0, [4.0, 2.0, 1.0]), curve("cora", 1, 1, [2.0, 1.0])], "Adj")
    (line,) = figure.axes[0].lines
    assert line.get_ydata().tolist() == [3.0, 1.5]
    assert line.get_xdata().tolist() == [1, 2]
    assert len(figure.axes[0].collections) == 1


def test_losses_that_vanish_stay_on_the_axis():
    figure = draw_curves([curve("cora", 1, 0, [1.0, 1e-9, 0.0])], "Adj")
    axes = figure.axes[0]
    assert axes.get_yscale() == "log"
    assert axes.get_ylim()[0] < FLOOR < 1 < axes.get_ylim()[1]
    assert axes.lines[0].get_ydata().tolist() == [1.0, FLOOR, FLOOR]


def test_runs_without_curves_are_passed_over():
    empty = Record({"dataset": "cora", "hidden_layers": 1, "run": 0})
    figure = draw_curves([empty], "Adj")
    assert len(figure.axes) == 3
    assert figure.legends == []
