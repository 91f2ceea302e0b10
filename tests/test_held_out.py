from __future__ import annotations

import numpy as np
import pytest

from gbgnn import GBGNNClassifier, Graph, datasets, load
from gbgnn.errors import GBGNNWarning, GraphError
from gbgnn.held_out import HeldOut

DATA = datasets.csbm(n_nodes=120, per_class=6, seed=0)


@pytest.fixture(scope="module")
def model():
    fitted = GBGNNClassifier(n_rounds=2, preset="fast", random_state=0)
    validation = (DATA.val, DATA.y[DATA.val])
    return fitted.fit(DATA.train, DATA.y[DATA.train], graph=DATA.graph, validation=validation).model_


def test_nodes_that_chose_the_round_are_counted_and_warned_of(model) -> None:
    nodes = np.concatenate([DATA.val[:3], DATA.test[:5]])
    found = HeldOut.check(model, nodes, DATA.y[nodes], None)
    assert found.chosen_by == 3
    with pytest.warns(
        GBGNNWarning, match="3 of the 8 calibration nodes are validation nodes.* that all is well"
    ):
        told = found.caveat("that all is well")
    assert told is not None


def test_other_nodes_carry_no_caveat(model) -> None:
    found = HeldOut.check(model, DATA.test, DATA.y[DATA.test], None)
    assert found.caveat("anything") is None
    assert model.task.decode(found.targets).tolist() == DATA.y[DATA.test].tolist()


def test_training_nodes_are_refused_on_the_graph_of_the_fit_only(model) -> None:
    nodes = DATA.train[:2]
    for graph in (None, DATA.graph):
        with pytest.raises(GraphError, match="nodes shares 2 nodes with the training nodes of the model"):
            HeldOut.check(model, nodes, DATA.y[nodes], graph)
    other = Graph(DATA.graph.adjacency, np.asarray(DATA.graph.features) + 1)
    assert HeldOut.check(model, nodes, DATA.y[nodes], other).chosen_by == 0


def test_what_is_no_held_out_node_is_said(model) -> None:
    with pytest.raises(GraphError, match="nodes is empty"):
        HeldOut.check(model, [], [], None)
    with pytest.raises(GraphError, match="node id 120, but the graph has 120 nodes"):
        HeldOut.check(model, [120], [0], None)
    with pytest.raises(GraphError, match="y has 1 labels for 2 nodes"):
        HeldOut.check(model, DATA.test[:2], [0], None)
    with pytest.raises(GraphError, match="y has class 9, which no training node has"):
        HeldOut.check(model, DATA.test[:1], [9], None)


def test_a_model_knows_its_validation_nodes_also_from_a_file(model, tmp_path) -> None:
    assert model.validation_nodes.tolist() == sorted(DATA.val.tolist())
    fitted = GBGNNClassifier(n_rounds=2, preset="fast", validation_fraction=0.5, random_state=0)
    fitted.fit(DATA.train, DATA.y[DATA.train], graph=DATA.graph).save(tmp_path / "m.gbgnn")
    again = load(tmp_path / "m.gbgnn")
    both = [*again.train_nodes_, *again.validation_nodes_]
    assert sorted(both) == sorted(DATA.train.tolist())
    assert len(again.validation_nodes_) == len(DATA.train) // 2


def test_an_average_knows_those_of_all_its_members(model) -> None:
    average = GBGNNClassifier(preset="best", time_limit=2, random_state=0)
    validation = (DATA.val, DATA.y[DATA.val])
    average.fit(DATA.train, DATA.y[DATA.train], graph=DATA.graph, validation=validation)
    assert average.validation_nodes_.tolist() == sorted(DATA.val.tolist())
    assert HeldOut.check(average.model_, DATA.val, DATA.y[DATA.val], None).chosen_by == len(DATA.val)
