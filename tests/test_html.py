from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from sklearn import config_context

from gbgnn import MLP, Calibrated, GBGNNClassifier, GBGNNRegressor, Graph, NodeSplit, datasets
from gbgnn._html import list_some, show_facts
from gbgnn.datasets import Dataset
from gbgnn.testing import two_blocks

HOSTILE = "<script>alert(1)</script>"


def words(text: str) -> list[str]:
    """Return what a reader sees, cell by cell; fails for elements that are no table's."""
    found: list[str] = []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attrs: Any) -> None:
            assert tag in ("table", "caption", "strong", "tr", "th", "td")

        def handle_data(self, data: str) -> None:
            found.append(data)

    Parser().feed(text)
    return found


def facts(text: str) -> dict[str, str]:
    title, *cells = words(text)
    return {"title": title} | dict(zip(cells[::2], cells[1::2], strict=True))


@pytest.fixture
def graph() -> tuple[Graph, np.ndarray]:
    graph, y = two_blocks(40, n_classes=2)
    names = [HOSTILE, *(f"c{i}" for i in range(graph.n_features - 1))]
    return Graph(graph.adjacency, graph.features, feature_names=names), np.array(["a", HOSTILE])[y]


@pytest.fixture
def model(graph: tuple[Graph, np.ndarray]) -> GBGNNClassifier:
    known, y = graph
    model = GBGNNClassifier(preset="fast", n_rounds=2, learner=MLP(epochs=5, units=4), random_state=3)
    return model.fit(range(20), y[:20], graph=known, validation=(range(20, 30), y[20:30]))


def test_a_graph_shows_its_size_and_names_as_text(graph: tuple[Graph, np.ndarray]) -> None:
    found = facts(graph[0]._repr_html_())
    assert (found["title"], found["nodes"], found["directed"]) == ("Graph", "40", "no")
    assert found["edges"] == f"{graph[0].n_edges:,}"
    assert HOSTILE in found["columns"]


def test_features_of_a_table_are_not_made_to_be_shown() -> None:
    table = Graph(np.eye(3)[::-1], {"age": [1, 2, 3], "city": ["x", "y", "x"]})
    found = facts(table._repr_html_())
    assert found["columns"] == "age, city"
    assert "features" not in vars(table)


def test_a_data_set_shows_its_split_and_its_graph() -> None:
    data = datasets.karate()
    text = data._repr_html_()
    assert "Dataset karate" in words(text)
    assert data.graph._repr_html_() in text
    assert f"{len(data.test)}" in words(text)


def test_a_data_set_of_numbers_has_no_classes() -> None:
    data = Dataset("n", two_blocks(4)[0], np.arange(4) / 2, NodeSplit([0, 1]), task="regression")
    assert "classes" not in words(data._repr_html_())


def test_a_fitted_model_shows_its_rounds_and_how_good_they_are(model: GBGNNClassifier) -> None:
    found = facts(model.model_._repr_html_())
    assert found["title"] == "FittedModel"
    assert found["classes"] == f"{HOSTILE}, a"
    assert found["rounds"] == f"2, of which round {model.best_round_} predicts"
    row = model.history_rows_[model.best_round_ - 1]
    assert float(found["validation accuracy"]) == pytest.approx(row["val_accuracy"], abs=1e-3)
    assert found["seed"] == "3"


def test_a_calibrated_model_shows_the_model_inside(
    model: GBGNNClassifier, graph: tuple[Graph, np.ndarray]
) -> None:
    calibrated = Calibrated(model).fit(range(30, 40), graph[1][30:40])
    found = facts(calibrated.model_._repr_html_())
    assert found["calibrated by"] == "temperature"
    assert found["rounds"] == facts(model.model_._repr_html_())["rounds"]


def test_an_estimator_shows_parameters_and_once_fitted_the_model(model: GBGNNClassifier) -> None:
    def unnumbered(text: str) -> str:
        return re.sub(r"id-\d+", "", text)  # every diagram has numbers of its own

    fresh = GBGNNRegressor()
    assert unnumbered(fresh._repr_mimebundle_()["text/html"]) == unnumbered(fresh._repr_html_())
    shown = model._repr_mimebundle_()["text/html"]
    assert unnumbered(shown) == unnumbered(model._repr_html_())
    assert shown.startswith(model.model_._repr_html_())
    assert "n_rounds" in shown
    assert "<script>alert" not in shown


def test_scikit_learns_setting_for_text_is_kept(model: GBGNNClassifier) -> None:
    with config_context(display="text"):
        assert "text/html" not in model._repr_mimebundle_()
        assert not hasattr(model, "_repr_html_")


def test_facts_are_written_for_people() -> None:
    found = facts(show_facts("x", {"a": 12345, "b": 0.123456, "c": None, "d": True}))
    assert found == {"title": "x", "a": "12,345", "b": "0.1235", "d": "yes"}
    assert list_some(["a"]) == "a"
