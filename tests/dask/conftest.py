from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from distributed import Client, LocalCluster

from gbgnn import Graph
from gbgnn.problem import NodeInputs
from gbgnn.propagation import GraphRows
from gbgnn.storage import Storage


@pytest.fixture(scope="session")
def client() -> Iterator[Client]:
    """Two workers that are threads of this process: started in a moment."""
    with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as client:
        yield client


@pytest.fixture(scope="session")
def processes() -> Iterator[Client]:
    """Two workers, each a process of its own that is started again when it is killed."""
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


class FewRows(Storage):
    """One machine on which parts are handed rows of labelled nodes alone, as on a cluster."""

    def holds(self, graph: Any, dtype: Any, n_outputs: int) -> bool:
        return False

    def room_for_scores(self) -> int:
        return 0

    def build(self, recipe: Any, graph: Any, known: Any, needs: Any) -> NodeInputs:
        inputs = recipe.build(graph, known)
        return replace(inputs, features=GraphRows.of(inputs.features, inputs.P))


@pytest.fixture
def fit_here() -> Any:
    """Fit an estimator on this machine, from the rows of few nodes."""

    def fit(model: Any, nodes: Any, y: Any, graph: Graph, **labels: Any) -> Any:
        seed = model.random_state
        return model._train(model, model.task_for(y), nodes, y, graph, seed=seed, storage=FewRows(), **labels)

    return fit


@pytest.fixture(scope="session")
def make_graph() -> Any:
    """Return a graph of any size: directed or not, weighted or not, some nodes alone."""

    def make(n_nodes: int = 60, *, seed: int = 0, weighted: bool = False, directed: bool = False) -> Graph:
        rng = np.random.default_rng(seed)
        A = sp.random_array((n_nodes, n_nodes), density=4 / n_nodes, rng=rng, format="csr")
        A.data = rng.uniform(0.5, 2.0, A.nnz) if weighted else np.ones(A.nnz)
        A = A if directed else A.maximum(A.T)
        A.setdiag(0)
        A.eliminate_zeros()
        return Graph(A, rng.normal(size=(n_nodes, 7)).astype(np.float32))

    return make


@pytest.fixture(scope="session")
def frames() -> Any:
    """Make a table of nodes with ids in no order, and one of edges, some of them twice, and self loops."""

    def make(n_nodes: int = 40, n_edges: int = 150, *, both_ways: bool = False) -> Any:
        rng = np.random.default_rng(0)
        ids = rng.permutation(n_nodes) * 7 + 3
        nodes = pd.DataFrame({"key": ids, "a": rng.normal(size=n_nodes), "b": rng.integers(0, 9, n_nodes)})
        nodes["label"] = (nodes["a"] > 0).astype(int)
        ends = {"caller": rng.choice(ids, n_edges), "called": rng.choice(ids, n_edges)}
        edges = pd.DataFrame(ends | {"calls": rng.integers(1, 5, n_edges)})
        if both_ways:
            turned = edges.rename(columns={"caller": "called", "called": "caller"})
            edges = pd.concat([edges, turned], ignore_index=True)
        return nodes, edges

    return make
