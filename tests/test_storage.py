from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
import torch

from gbgnn import Checkpoint, GBGNNClassifier, GBGNNRegressor, Graph, Neighbourhood, datasets, load, storage
from gbgnn.callbacks import Callback
from gbgnn.errors import ParameterError
from gbgnn.propagation import DiskRows, GraphRows, disk_rows

DATA = datasets.csbm(n_nodes=120, per_class=10, n_val=30, seed=1)
OTHER = datasets.csbm(n_nodes=80, per_class=10, n_val=10, seed=2).graph
LIMIT = "64GB"


@pytest.fixture
def on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every graph is too large for a limit, whatever it is."""
    monkeypatch.setattr(storage, "expected_bytes", lambda *_: 2**60)


def fitted(kind: Any = GBGNNClassifier, graph: Graph = DATA.graph, **settings: Any) -> Any:
    y = DATA.y if kind is GBGNNClassifier else np.asarray(DATA.graph.features)[:, 0]
    model = kind(**{"preset": "fast", "n_rounds": 4, "random_state": 0} | settings)
    return model.fit(DATA.train, y[DATA.train], graph=graph, validation=(DATA.val, y[DATA.val]))


def tensors(model: Any) -> list[torch.Tensor]:
    return [value for each in model.ensemble_ for value in each.head.state_dict().values()]


@pytest.mark.usefixtures("on_disk")
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"aggregation": "injection", "feature_norm": "l2"},
        {"aggregation": "kta", "n_rounds": 3},
        {"aggregation": "lazy", "rule": "samme", "dtype": "float64"},
        {"rule": "samme_r", "learner": "constrained"},
        {"kind": GBGNNRegressor, "propagation": "random_walk"},
    ],
)
def test_a_fit_on_disk_is_that_in_memory(settings: dict[str, Any]) -> None:
    disk, memory = fitted(**settings, memory_limit=LIMIT), fitted(**settings)
    nodes = np.arange(DATA.graph.n_nodes)
    assert isinstance(disk.model_.build_inputs().features, DiskRows)
    assert disk.best_round_ == memory.best_round_
    for mine, other in zip(tensors(disk), tensors(memory), strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)
    for graph, asked in ((None, nodes), (None, [3, 1]), (OTHER, [5]), (OTHER, np.arange(80))):
        found, wanted = (model.model_.find_scores(asked, graph) for model in (disk, memory))
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)
    for mine, other in zip(disk.staged_predict([9, 2]), memory.staged_predict([9, 2]), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-4)


@pytest.mark.usefixtures("on_disk")
def test_sparse_and_mapped_features_are_read_from_where_they_are(tmp_path: Path) -> None:
    X = np.asarray(DATA.graph.features)
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    wanted = fitted().scores_
    for features in (sp.csr_array(X), mapped):
        graph = Graph(DATA.graph.adjacency, features)
        found = fitted(graph=graph, memory_limit=LIMIT).scores_
        np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("on_disk")
def test_few_scores_are_those_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    model = fitted(memory_limit=LIMIT)
    all_scores = model.scores_
    assert model.model_.score_tensor is model.model_.score_tensor  # computed once
    lean = fitted(memory_limit=LIMIT)
    monkeypatch.setattr(storage.Disk, "room_for_scores", lambda self: 0)
    for asked in ([7], np.arange(120)[::-1]):
        found = lean.model_.find_scores(asked)
        assert "score_tensor" not in vars(lean.model_)
        np.testing.assert_allclose(found, all_scores[np.asarray(asked)], rtol=1e-6)


@pytest.mark.usefixtures("on_disk")
def test_a_fit_that_was_killed_goes_on_to_the_same_bytes_and_multiplies_nothing_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Kill(Callback):
        def on_round(self, report: Any) -> None:
            if report.t == 3:
                raise KeyboardInterrupt

    own: dict[str, Any] = {"memory_limit": LIMIT, "n_rounds": 6}
    fitted(**own, work_folder=tmp_path / "whole").save(tmp_path / "whole.gbgnn")
    checkpoint = Checkpoint(tmp_path / "checkpoint.gbgnn", every=1)
    with pytest.raises(KeyboardInterrupt):
        fitted(**own, work_folder=tmp_path / "killed", callbacks=[checkpoint, Kill()])
    again = load(tmp_path / "checkpoint.gbgnn")
    assert again.work_folder is None  # no place on a machine is in a file
    again.set_params(warm_start=True, work_folder=tmp_path / "killed", n_rounds=6)
    products: list[int] = []
    usual = disk_rows.mix
    monkeypatch.setattr(disk_rows, "mix", lambda *args: products.append(1) or usual(*args))
    again.fit(DATA.train, DATA.y[DATA.train], graph=DATA.graph, validation=(DATA.val, DATA.y[DATA.val]))
    assert len(products) == 6 - 3
    again.set_params(warm_start=False).save(tmp_path / "again.gbgnn")
    assert (tmp_path / "again.gbgnn").read_bytes() == (tmp_path / "whole.gbgnn").read_bytes()


@pytest.mark.usefixtures("on_disk")
def test_a_model_from_a_file_keeps_to_its_limit(tmp_path: Path) -> None:
    model = fitted(memory_limit=LIMIT)
    wanted = model.scores_
    model.save(tmp_path / "model.gbgnn")
    read = load(tmp_path / "model.gbgnn")
    assert read.model_.n_nodes == 120
    assert isinstance(read.model_.build_inputs(DATA.graph).features, DiskRows)
    np.testing.assert_allclose(read.predict_proba([4], graph=DATA.graph), model.predict_proba([4]), rtol=1e-5)
    with pytest.raises(ParameterError, match="graph"):
        read.predict([4])
    assert np.isfinite(wanted).all()


def test_a_limit_that_holds_all_changes_nothing() -> None:
    wanted, found = fitted(), fitted(memory_limit=LIMIT)
    assert np.array_equal(wanted.scores_, found.scores_)
    assert found.model_.kept_scores is not None


def test_what_is_expected_grows_with_every_size(monkeypatch: pytest.MonkeyPatch) -> None:
    small, single, double = DATA.graph, torch.float32, torch.float64
    wider = Graph(small.adjacency, np.hstack([small.features, small.features]))
    sizes = [
        storage.expected_bytes(*each) for each in ((small, single, 2), (small, single, 3), (small, double, 3))
    ]
    assert sizes == sorted(set(sizes))
    more = storage.expected_bytes(wider, single, 2) - sizes[0]
    assert more == 3 * small.n_nodes * small.n_features * 4


@pytest.mark.usefixtures("on_disk")
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"learner": "trees"},
            r"but learner=BoostedTrees\(\) needs more; leave that out, or give a memory_limit of",
        ),
        ({"aggregation": "linear"}, r"but aggregation=Linear\(\) needs more"),
        (
            {"neighbourhood": Neighbourhood(targets=0), "preset": "default"},
            r"but neighbourhood=Neighbourhood\(targets=0\) needs more",
        ),
        ({"fine_tune": True}, r"but fine_tune=True needs more"),
        ({"preset": "best", "n_rounds": 20}, r"preset=\"best\" holds all rows"),
        ({"memory_limit": "lots"}, r"memory_limit must be a number of bytes"),
        ({"memory_limit": None, "work_folder": "here"}, r"work_folder='here' is where rows are written"),
    ],
)
def test_what_cannot_be_done_on_disk_is_said(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        fitted(**{"memory_limit": LIMIT} | settings)


@pytest.mark.usefixtures("on_disk")
def test_tables_and_graphs_without_features_are_refused() -> None:
    for graph in (Graph(DATA.graph.adjacency, {"a": np.arange(120)}), Graph(DATA.graph.adjacency, None)):
        with pytest.raises(ParameterError, match="leave no room for the columns that are made of a graph's"):
            fitted(graph=graph, memory_limit=LIMIT)


def test_sixteen_bits_take_half_and_predict_alike() -> None:
    half, single = fitted(dtype="bfloat16"), fitted()
    assert isinstance(half.model_.build_inputs().features, GraphRows)
    assert half.model_.kept_scores is None
    assert half.scores_.dtype == np.float32
    agree = np.mean(half.predict(np.arange(120)) == single.predict(np.arange(120)))
    assert agree > 0.95
    with pytest.raises(
        ParameterError, match=r"dtype='bfloat16' stores representations in 16 bits.*BoostedTrees"
    ):
        fitted(dtype="bfloat16", learner="trees")


def test_without_room_for_scores_beside_the_rows_those_of_known_nodes_are_enough(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = fitted()
    monkeypatch.setattr(storage, "free_bytes", lambda: 1)
    lean = fitted()
    assert lean.model_.kept_scores is None
    np.testing.assert_allclose(lean.predict_proba([7, 3]), wanted.predict_proba([7, 3]), rtol=1e-5)
    monkeypatch.setattr(storage, "free_bytes", lambda: None)
    assert fitted().model_.kept_scores is not None
