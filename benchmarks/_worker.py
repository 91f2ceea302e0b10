"""The process that measures one source tree: a task per line comes in, a line of JSON goes out.

Started by ``sides.py`` as ``python _worker.py TREE`` with ``PYTHONPATH=TREE/src``; not a benchmark by itself.
It uses only what the library has always had, so that it can measure an older commit. Every task times one
thing once, with its data ready before the clock.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
import time
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from common import reset_peak_memory, resident_bytes

import gbgnn
from gbgnn import MLP, GBGNNClassifier, Graph, Samme, datasets
from gbgnn.datasets import Dataset

FAST = {"preset": "fast"} if "preset" in GBGNNClassifier().get_params() else {}
"""The paper's method, which versions without presets have by themselves."""


@lru_cache
def load(name: str) -> Dataset:
    return datasets.load(name)


def fresh(graph: Graph) -> Graph:
    """Return an equal graph in which no earlier fit can have left anything."""
    return Graph(graph.adjacency, graph.features)


def default_fit(name: str, seed: int, device: str = "cpu") -> dict[str, Any]:
    """Time a fit of the paper's method with its defaults and with validation nodes."""
    data = load(name)
    graph = fresh(data.graph)
    model = GBGNNClassifier(**FAST, random_state=seed, device=device)
    started = time.perf_counter()
    model.fit(data.train, data.y[data.train], graph=graph, validation=(data.val, data.y[data.val]))
    seconds = time.perf_counter() - started
    accuracy = float(np.mean(model.predict(data.test) == data.y[data.test]))
    return {"seconds": seconds, "accuracy": accuracy, "rounds": n_rounds_of(model)}


def samme_round(name: str, seed: int, n_rounds: int = 5) -> dict[str, Any]:
    """Time a round of Adj + SAMME, 64 units and 100 epochs: a whole fit, set-up included, by its rounds."""
    data = load(name)
    graph = fresh(data.graph)
    model = GBGNNClassifier(
        aggregation="adjacency",
        rule=Samme(),
        learner=MLP(units=64, epochs=100),
        n_rounds=n_rounds,
        random_state=seed,
        device="cpu",
    )
    started = time.perf_counter()
    model.fit(data.train, data.y[data.train], graph=graph)
    seconds = (time.perf_counter() - started) / n_rounds_of(model)
    accuracy = float(np.mean(model.predict(data.test) == data.y[data.test]))
    return {"seconds": seconds, "accuracy": accuracy, "rounds": n_rounds_of(model)}


def population(name: str, seed: int, device: str, n_members: int, n_rounds: int = 20) -> dict[str, Any]:
    """Time models trained at once on Cora: with one setting, or as a search draws them."""
    from gbgnn.population import PopulationInputs, train_population

    data, random = load("cora"), np.random.default_rng(seed)
    models = []
    for i in range(n_members):
        learner = MLP(epochs=100, units=64, basis="rows" if name.endswith("rows") else "features")
        if name.startswith("search"):
            learner.set_params(
                epochs=10 * int(random.integers(1, 11)),
                units=int(2 ** random.uniform(4, 7)),
                dropout=float(random.choice([0.0, 0.5])),
                optimizer=str(random.choice(["adam", "rmsprop"])),
                learning_rate=float(10 ** random.uniform(-3, -1.3)),
                weight_decay=float(10 ** random.uniform(-4, -1.3)),
            )
        parts = {"aggregation": "kta" if name == "kta" else "adjacency", "rule": Samme(), "learner": learner}
        models.append(GBGNNClassifier(**parts, n_rounds=n_rounds, random_state=i, device=device))
    build = getattr(PopulationInputs, "from_model", None) or PopulationInputs.of  # the name of older commits
    train, val = (data.train, data.y[data.train]), (data.val, data.y[data.val])
    started = time.perf_counter()
    results = train_population(build(models[0], *train, graph=data.graph, validation=val), models)
    return {"seconds": time.perf_counter() - started, "rounds": sum(each.n_rounds for each in results)}


def search(name: str, seed: int, n_trials: int = 16) -> dict[str, Any]:
    """Time ``tune`` on Cora, trial by trial or eight at a time."""
    try:
        from gbgnn.search import default_space, tune
    except ImportError:  # the name of older commits
        from gbgnn.tuning import default_space, tune
    data = load("cora")
    space = default_space("adj").changed({"n_rounds": 10, "learner__epochs": [20, 60]})
    train, val = (data.train, data.y[data.train]), (data.val, data.y[data.val])
    size = 8 if name.startswith("eight") else None
    started = time.perf_counter()
    found = tune(
        *train,
        graph=data.graph,
        validation=val,
        space=space,
        n_trials=n_trials,
        seed=seed,
        population=size,
        device="cpu",
    )
    return {"seconds": time.perf_counter() - started, "best": found.best_value}


def predict_memory(n_rounds: int, n_nodes: int, n_classes: int = 10, n_features: int = 32) -> dict[str, Any]:
    """Read the peak of ``predict`` on another graph, above what the process held before."""
    shape = {"n_classes": n_classes, "n_features": n_features, "mean_degree": 6}
    small, other = (datasets.csbm(n_nodes=size, **shape, seed=0) for size in (2000, n_nodes))
    model = GBGNNClassifier(n_rounds=n_rounds, select="last", random_state=0, device="cpu")
    model.fit(small.train, small.y[small.train], graph=small.graph)
    model.predict(small.test, graph=fresh(small.graph))  # what a first call loads is not counted
    nodes = np.arange(n_nodes)
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    before = resident_bytes()
    reset_peak_memory()
    started = time.perf_counter()
    model.predict(nodes, graph=other.graph)
    seconds = time.perf_counter() - started
    return {
        "peak_mb": (resident_bytes(peak=True) - before) / 2**20,
        "scores_mb": n_nodes * n_classes * 4 / 2**20,
        "features_mb": n_nodes * n_features * 4 / 2**20,
        "rounds": n_rounds_of(model),
        "seconds": seconds,
    }


def large(device: str, n_nodes: int, n_entries: int, n_labels: int, n_rounds: int) -> dict[str, Any]:
    """Time ``Graph``, ``fit`` and ``predict`` of all nodes on a graph that a seed makes."""
    n_features, n_classes = 64, 4
    n_nodes -= n_nodes % n_classes
    is_cuda = torch.device(device).type == "cuda"
    sync = torch.cuda.synchronize if is_cuda else lambda: None
    seconds: dict[str, float] = {}
    started = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal started
        sync()
        now = time.perf_counter()
        seconds[name] = now - started
        started = time.perf_counter()

    def new_model(rounds: int) -> GBGNNClassifier:
        return GBGNNClassifier(n_rounds=rounds, keep_learners=False, random_state=0, device=device)

    tiny = datasets.csbm(n_nodes=2000, n_classes=n_classes, n_features=n_features, seed=0)
    new_model(2).fit(tiny.train, tiny.y[tiny.train], graph=tiny.graph).predict(tiny.test)
    lap("first")  # starts the device, loads and compiles what the first fit of a process needs
    adjacency, features, y, train = large_graph(n_nodes, n_entries, n_features, n_classes, n_labels, device)
    if is_cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    reset_peak_memory()
    lap("data")
    graph = Graph(adjacency, features)
    lap("graph")
    model = new_model(n_rounds).fit(train, y[train], graph=graph)
    lap("fit")
    classes = model.predict(np.arange(n_nodes))
    lap("predict")
    seconds["total"] = seconds["graph"] + seconds["fit"] + seconds["predict"]
    is_hidden = np.ones(n_nodes, bool)
    is_hidden[train] = False
    return {
        "seconds": seconds,
        "accuracy": float(np.mean(classes[is_hidden] == y[is_hidden])),
        "rounds": n_rounds_of(model),
        "round_seconds": float(np.sum(model.history_["seconds"])),
        "entries": int(adjacency.nnz),
        "device_peak_gib": torch.cuda.max_memory_allocated() / 2**30 if is_cuda else None,
        "host_peak_gib": resident_bytes(peak=True) / 2**30,
    }


def large_graph(
    n_nodes: int, n_entries: int, n_features: int, n_classes: int, n_labels: int, device: str
) -> tuple[sp.csr_array, np.ndarray, np.ndarray, np.ndarray]:
    """Draw an undirected graph without weights, its features, its classes and the labelled nodes.

    The class of a node is its number modulo the number of classes. An edge joins two random nodes; half of
    them have their second end moved to the class of the first. Rows are sorted, nothing is repeated.
    """
    rng = torch.Generator(device).manual_seed(0)
    shape = (n_entries // 2,)
    one, other = (torch.randint(n_nodes, shape, generator=rng, device=device) for _ in range(2))
    is_moved = torch.rand(shape, generator=rng, device=device) < 0.5
    other = torch.where(is_moved, other - other % n_classes + one % n_classes, other)
    proper = one != other
    one, other = one[proper], other[proper]
    keys = torch.unique(torch.cat([one * n_nodes + other, other * n_nodes + one]))
    rows, columns = keys // n_nodes, (keys % n_nodes).to(torch.int32)
    counts = torch.bincount(rows, minlength=n_nodes)
    indptr = np.concatenate([[0], counts.cumsum(0).cpu().numpy()])
    indices = columns.cpu().numpy()
    y = torch.arange(n_nodes, device=device) % n_classes
    means = torch.randn((n_classes, n_features), generator=rng, device=device)
    means *= 0.7 / means.norm(dim=1, keepdim=True)
    features = torch.randn((n_nodes, n_features), generator=rng, device=device) + means[y]
    train = torch.randperm(n_nodes, generator=rng, device=device)[:n_labels].cpu().numpy()
    adjacency = sp.csr_array((np.ones(len(indices), np.float32), indices, indptr), shape=(n_nodes, n_nodes))
    return adjacency, features.cpu().numpy(), y.cpu().numpy(), train


def grid_search(name: str) -> dict[str, Any]:
    """Time a search over four settings in two processes, two folds each, which earlier calls have started."""
    from sklearn.model_selection import GridSearchCV

    data = load(name)
    grid = {"aggregation": ["adjacency", "injection"], "n_rounds": [10, 20]}
    model = GBGNNClassifier(**FAST, random_state=0, device="cpu")
    search = GridSearchCV(model, grid, n_jobs=2, cv=2, refit=False, error_score="raise")
    started = time.perf_counter()
    search.fit(data.train, data.y[data.train], graph=data.graph)
    seconds = time.perf_counter() - started
    return {"seconds": seconds, "accuracy": float(search.cv_results_["mean_test_score"].max())}


def n_rounds_of(model: GBGNNClassifier) -> int:
    return len(model.history_["seconds"])


TASKS = {
    "default_fit": default_fit,
    "samme_round": samme_round,
    "population": population,
    "search": search,
    "predict_memory": predict_memory,
    "large": large,
    "grid_search": grid_search,
}


def main() -> None:
    tree, answers = Path(sys.argv[1]).resolve(), sys.stdout
    sys.stdout = sys.stderr  # a stray print is no answer
    source = Path(gbgnn.__file__).resolve()
    if not source.is_relative_to(tree / "src"):
        raise SystemExit(f"gbgnn comes from {source}, not from {tree}/src")
    about = {"version": gbgnn.__version__, "torch_threads": torch.get_num_threads()}
    print(json.dumps(about), file=answers, flush=True)
    for line in sys.stdin:
        task = json.loads(line)
        print(json.dumps(TASKS[task.pop("task")](**task)), file=answers, flush=True)


if __name__ == "__main__":
    main()
