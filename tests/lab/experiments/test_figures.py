from __future__ import annotations

import numpy as np
import pytest

from gbgnn_lab.experiments.figures import FLOOR, draw_curves, draw_depth
from gbgnn_lab.experiments.records import Record


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


def depths(system, means, dataset="cora"):
    return [
        Record(
            {"dataset": dataset, "system": system, "depth": depth, "run": run},
            results={"test_accuracy": mean + shift},
        )
        for depth, mean in means.items()
        for run, shift in enumerate((-0.01, 0.01))
    ]


def test_depth_has_a_panel_per_data_set_and_a_line_per_system():
    records = [
        *depths("gcn", {2: 0.8, 64: 0.2}),
        *depths("gbgnn", {2: 0.78, 64: 0.82}),
        *depths("gbgnn", {2: 0.7}, dataset="citeseer"),
    ]
    figure = draw_depth(records, {"gbgnn": "gbgnn, Adj", "gcn": "GCN"}, "Depth")
    cora, citeseer = figure.axes
    assert labels(figure) == ["gbgnn, Adj", "GCN"]
    ours, theirs = cora.lines
    assert theirs.get_ydata() == pytest.approx([80, 20])
    assert ours.get_linewidth() > theirs.get_linewidth()
    assert len(citeseer.lines) == 1
    assert [tick.get_text() for tick in cora.get_xticklabels()] == ["2", "64"]


def test_a_system_without_results_has_no_line():
    records = [*depths("gcn", {2: 0.8}), Record({"dataset": "cora", "system": "sgc", "depth": 2, "run": 0})]
    assert labels(draw_depth(records, {"gcn": "GCN", "sgc": "SGC"}, "Depth")) == ["GCN"]
