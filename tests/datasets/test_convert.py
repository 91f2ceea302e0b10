from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gbgnn.datasets import from_networkx, from_pyg, karate, to_networkx, to_pyg
from gbgnn.errors import DataError
from gbgnn.labels import NodeSplit


def _data(**changes):
    given = {
        "edge_index": torch.tensor([[0, 1, 1], [1, 2, 1]]),
        "x": torch.arange(6.0).reshape(3, 2),
        "y": torch.tensor([0, 1, 0]),
        "train_mask": torch.tensor([True, True, False]),
        "test_mask": torch.tensor([False, False, True]),
        **changes,
    }
    return SimpleNamespace(**{key: value for key, value in given.items() if value is not None})


class TestPyG:
    def test_a_target_hears_its_source(self):
        data = from_pyg(_data())
        assert data.graph.adjacency.toarray().tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]
        assert data.graph.repairs == ("dropped 1 self loops",)
        assert (data.train.tolist(), data.test.tolist()) == ([0, 1], [2])

    def test_a_real_data_object_is_taken_over(self):
        Data = pytest.importorskip("torch_geometric.data").Data
        edge_index = torch.tensor([[0, 1], [1, 0]])
        masks = {"train_mask": torch.tensor([True, True])}
        data = Data(x=torch.eye(2), y=torch.tensor([[0], [1]]), edge_index=edge_index, **masks)
        assert from_pyg(data, name="two").graph.n_edges == 1

    def test_weights_come_from_the_named_attribute(self):
        attributes = {"edge_attr": torch.tensor([[2.0], [3.0], [4.0]])}
        assert from_pyg(_data(**attributes)).graph.adjacency[1, 0] == 1
        assert from_pyg(_data(**attributes), weight="edge_attr").graph.adjacency[1, 0] == 2
        assert from_pyg(_data(edge_weight=torch.tensor([5.0, 6.0, 7.0]))).graph.adjacency[2, 1] == 6

    def test_one_of_several_masks_is_picked(self):
        masks = {"train_mask": torch.eye(3, dtype=torch.bool), "test_mask": None}
        assert from_pyg(_data(**masks), split=2).train.tolist() == [2]

    def test_without_masks_a_split_must_be_given(self):
        bare = _data(train_mask=None, test_mask=None)
        with pytest.raises(DataError, match="pyg comes without a split"):
            from_pyg(bare)
        assert from_pyg(bare, split=NodeSplit([0, 1])).train.tolist() == [0, 1]
        assert from_pyg(bare, split="stratified").split_name == "stratified, seed 0"

    @pytest.mark.parametrize(
        ("changes", "options", "message"),
        [
            ({"y": None}, {}, "has no y, so no labels"),
            ({"x": None}, {}, "has no x, so no features"),
            ({"edge_index": None}, {}, "has no edge_index, so no edges"),
            ({"edge_index": torch.zeros(3, 2)}, {}, r"shape \(2, n_edges\); got \(3, 2\)"),
            ({"edge_index": torch.tensor([[0], [9]])}, {}, "names node 9, but x has 3 rows"),
            ({"edge_index": torch.tensor([[-1], [0]])}, {}, "names node -1"),
            ({"edge_attr": torch.ones(3, 5)}, {"weight": "edge_attr"}, r"edge_attr has shape \(3, 5\)"),
            ({}, {"weight": "w"}, "has no w to take edge weights from"),
            ({"y": torch.eye(3)}, {}, "one label per node"),
            ({"train_mask": torch.tensor([True])}, {}, r"train_mask has shape \(1,\); expected \(3,\)"),
        ],
    )
    def test_what_is_wrong_is_named(self, changes, options, message):
        with pytest.raises(DataError, match=message):
            from_pyg(_data(**changes), **options)


class TestNetworkX:
    @pytest.fixture(autouse=True)
    def _networkx(self):
        self.nx = pytest.importorskip("networkx")

    def _toy(self, kind="Graph"):
        G = getattr(self.nx, kind)()
        G.add_node("ann", label="x", age=1, pos=[0.1, 0.2], part="train")
        G.add_node("bob", label="y", age=2, pos=[0.3, 0.4], part="train")
        G.add_node("cat", age=3, pos=[0.5, 0.6])
        G.add_edge("ann", "bob", weight=2.0)
        G.add_edge("bob", "cat")
        return G

    def test_names_attributes_and_weights_are_taken_over(self):
        data = from_networkx(self._toy(), features=["age", "pos"], split="part")
        assert data.graph.node_ids.tolist() == ["ann", "bob", "cat"]
        assert data.graph.features[2].tolist() == pytest.approx([3, 0.5, 0.6])
        assert data.y.tolist() == ["x", "y", ""]
        assert data.train.tolist() == [0, 1]
        assert data.graph.adjacency.toarray().tolist() == [[0, 2, 0], [2, 0, 1], [0, 1, 0]]

    def test_in_a_digraph_the_head_of_an_arrow_hears_its_tail(self):
        data = from_networkx(self._toy("DiGraph"), weight=None, split=NodeSplit([0, 1]))
        assert data.graph.adjacency.toarray().tolist() == [[0, 0, 0], [1, 0, 0], [0, 1, 0]]

    def test_parallel_edges_are_summed(self):
        G = self._toy("MultiGraph")
        G.add_edge("bob", "ann", weight=3.0)
        data = from_networkx(G, split="part")
        assert data.graph.adjacency[0, 1] == 5
        assert data.graph.repairs == ("merged 1 repeated edges, weights summed",)

    def test_without_features_every_node_has_its_own(self):
        features = from_networkx(self._toy(), features=None, split="part").graph.features
        assert isinstance(features, sp.csr_array)
        assert np.array_equal(features.toarray(), np.eye(3))

    def test_names_of_other_kinds_become_text(self):
        G = self.nx.grid_2d_graph(2, 2)
        self.nx.set_node_attributes(G, dict(zip(G, [0, 1, 0, 1], strict=True)), "label")
        data = from_networkx(G, split="stratified")
        assert data.graph.node_ids[0] == "(0, 0)"
        assert data.name == "networkx"

    def test_integer_labels_with_gaps_are_marked(self):
        G = self.nx.path_graph(3)
        G.nodes[0]["label"], G.nodes[1]["label"] = 0, 1
        assert from_networkx(G, split="auto").y.tolist() == [0, 1, -1]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"label": "lable"}, r"no node has an attribute 'lable' for the labels. Did you mean 'label'\?"),
            ({"features": "colour"}, "no node has an attribute 'colour' for the features"),
            ({"features": "part"}, r"1 nodes lack the feature 'part' \(first: 'cat'\)"),
            ({}, "networkx comes without a split"),
        ],
    )
    def test_what_is_wrong_is_named(self, options, message):
        with pytest.raises(DataError, match=message):
            from_networkx(self._toy(), **options)

    def test_ragged_features_are_refused(self):
        G = self._toy()
        G.nodes["ann"]["pos"] = [1]
        with pytest.raises(DataError, match="feature 'pos' is not one number or list per node"):
            from_networkx(G, features="pos", split="part")

    def test_other_objects_and_empty_graphs_are_refused(self):
        with pytest.raises(DataError, match="needs a NetworkX graph; got list"):
            from_networkx([])
        with pytest.raises(DataError, match="no nodes"):
            from_networkx(self.nx.Graph())


class TestBothWays:
    def test_numbers_and_several_masks_come_back_from_pyg(self):
        pytest.importorskip("torch_geometric")
        masks = {"train_mask": torch.eye(3, 2, dtype=torch.bool), "test_mask": None}
        weights = torch.tensor([2.0, 3.0, 4.0])
        given = _data(y=torch.tensor([0.5, float("nan"), 2.25]), edge_weight=weights, **masks)
        with pytest.raises(DataError, match="train holds 1 nodes without a label"):
            from_pyg(given, split=1)
        data = from_pyg(given, split=0)
        assert (data.task, data.split_name) == ("regression", "public 0 of 2")
        again = to_pyg(data)
        assert again.train_mask.tolist() == masks["train_mask"].tolist()
        assert again.edge_weight.tolist() == [2.0, 3.0]
        back = from_pyg(again)
        assert back.y.tolist() == pytest.approx([0.5, float("nan"), 2.25], nan_ok=True)
        assert (back.graph.adjacency != data.graph.adjacency).nnz == 0
        assert [split.train.tolist() for split in back.own_splits] == [[0], [1]]

    def test_text_classes_become_places_in_pyg(self):
        pytest.importorskip("torch_geometric")
        given = _data(y=np.array(["b", "", "a"]), train_mask=None, test_mask=None)
        data = to_pyg(from_pyg(given, split=NodeSplit([0, 2])))
        assert data.y.tolist() == [1, -1, 0]
        assert data.train_mask.tolist() == [True, False, True]
        assert "edge_weight" not in data

    @pytest.mark.parametrize("y", [[0.5, 1.25, None], [0, 1, None], ["x", "y", None]])
    @pytest.mark.parametrize("kind", ["Graph", "DiGraph"])
    def test_networkx_gives_back_what_it_was_given(self, y, kind):
        networkx = pytest.importorskip("networkx")
        G = getattr(networkx, kind)([("a", "b", {"weight": 2.0}), ("b", "c", {"weight": 1.0})])
        for name, label, part in zip("abc", y, ("train", "test", ""), strict=True):
            told = {} if label is None else {"label": label}
            G.nodes[name].update({"f": [1.0, 2.0], "split": part}, **told)
        data = from_networkx(G, features="f", split="split")
        back = from_networkx(to_networkx(data), features="features", split="split")
        assert back.task == data.task
        assert back.graph.checksum == data.graph.checksum
        assert np.array_equal(back.y, data.y, equal_nan=data.is_regression)
        assert (back.train.tolist(), back.test.tolist()) == ([0], [1])

    def test_a_known_graph_goes_to_networkx_with_its_edges(self):
        networkx = pytest.importorskip("networkx")
        G, club = to_networkx(karate()), networkx.karate_club_graph()
        assert {frozenset(edge) for edge in G.edges} == {frozenset(edge) for edge in club.edges}
        assert [G.nodes[0]["split"], G.nodes[1]["split"]] == ["train", "test"]
