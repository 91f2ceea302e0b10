from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gbgnn.datasets import Dataset, csbm
from gbgnn_lab.experiments.options import Protocol
from gbgnn_lab.experiments.records import Fields, Record


@pytest.fixture(scope="session")
def tiny() -> Dataset:
    """Sixty nodes in three classes."""
    return csbm(n_nodes=60, n_classes=3, per_class=5)


@pytest.fixture(scope="session")
def scrambled(tiny: Dataset) -> Dataset:
    """The same with other labels of the test nodes, none of which is right."""
    y = tiny.y.copy()
    y[tiny.test] = (y[tiny.test] + 1) % 3
    return Dataset(tiny.name, tiny.graph, y, tiny.split, split_name=tiny.split_name)


@pytest.fixture(scope="session")
def numeric(tiny: Dataset) -> Dataset:
    """The same nodes with a number each: what a node and its neighbours have in a column."""
    column = tiny.graph.features[:, 0]
    y = column + tiny.graph.adjacency @ column
    return Dataset("numbers", tiny.graph, y, tiny.split, split_name=tiny.split_name)


@pytest.fixture
def protocol() -> Protocol:
    """As little searching as there can be."""
    return Protocol(trials=2, tune_trials=2, finalists=2, space="quick")


def _cell_record(
    accuracy: float | None,
    *,
    variant: str = "adj",
    layers: int = 1,
    fine_tune: bool = False,
    dataset: str = "cora",
    run: int = 0,
    failure: str | None = None,
    **changes: Any,
) -> Record:
    """A made-up run of a cell of the paper's tables."""
    protocol: Fields = {
        "trials": 100,
        "population": None,
        "seeds_per_trial": 1,
        "confirm": 0,
        "space": "paper",
    } | changes
    if fine_tune:
        protocol = {"finalists": 3, "tune_trials": 50} | protocol
    identity = {
        "dataset": dataset,
        "split": "public",
        "data": {"graph": "g", "labels": "l", "test": "t"},
        "variant": variant,
        "hidden_layers": layers,
        "fine_tune": fine_tune,
        "run": run,
        "protocol": protocol,
    }
    results = {} if accuracy is None else {"test_accuracy": accuracy, "search_accuracy": accuracy}
    machine = {"cpu": "Abacus", "cores": 2, "threads": 2, "gpu": None}
    made = {"command": "gbgnn reproduce table1", "date": "2026-01-02", "machine": machine}
    stamp = made | {"versions": {"gbgnn": "1.0", "torch": "2.9"}}
    return Record(identity, results=results, failure=failure, seconds=60.0, environment=stamp)


@pytest.fixture(scope="session")
def cell_run() -> Callable[..., Record]:
    """A maker of made-up runs of cells: accuracy first, the rest by name."""
    return _cell_record
