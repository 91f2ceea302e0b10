"""Trials a second: many models trained at once, beside the same models trained one after the other.

On a CPU both ways are timed in turns, and the fastest of several counts on both sides: a shared machine only
ever adds to it. One setting is 20 rounds of 100 epochs with 64 units, dropout and Adam, all labelled nodes at
once; the search draws units, epochs, dropout, optimiser and rates, for learners on the features, and ("rows")
in coordinates of the labelled rows. On a GPU (``--device cuda``) populations grow.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from common import publish, table
from sklearn.base import clone

from gbgnn import MLP, GBGNNClassifier, datasets
from gbgnn.datasets import Dataset
from gbgnn.errors import WeakLearnerError
from gbgnn.population import PopulationInputs, train_population

Models = list[GBGNNClassifier]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--dataset", default="cora")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--members", type=int, nargs="+", default=None)
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    data = datasets.load(given.dataset)
    if given.device == "cpu":
        on_cpu(data, given.rounds, given.members or [16], given.repeats)
    else:
        on_gpu(data, given.rounds, given.members or [1, 64, 512], given.repeats)


def one_setting(n: int, n_rounds: int, device: str, **settings: Any) -> Models:
    """Return models that differ in their seed alone."""
    fixed = {"rule": "samme", "n_rounds": n_rounds, "device": device, "keep_learners": False} | settings
    return [
        GBGNNClassifier(learner=MLP(epochs=100, units=64, basis="features"), random_state=s, **fixed)
        for s in range(n)
    ]


def search(n: int, n_rounds: int, device: str, **settings: Any) -> Models:
    """Return models as a search draws them."""
    random = np.random.default_rng(0)
    models = one_setting(n, n_rounds, device, **settings)
    for model in models:
        model.learner.set_params(
            epochs=10 * int(random.integers(1, 11)),
            units=int(2 ** random.uniform(4, 7)),
            dropout=float(random.choice([0.0, 0.5])),
            optimizer=str(random.choice(["adam", "rmsprop"])),
            learning_rate=float(10 ** random.uniform(-3, -1.3)),
            weight_decay=float(10 ** random.uniform(-4, -1.3)),
        )
    return models


def minibatches(n: int, n_rounds: int, device: str) -> Models:
    """Return models whose learners take some of the labelled nodes at a time."""
    models, random = search(n, n_rounds, device), np.random.default_rng(0)
    for model in models:
        model.learner.set_params(batch_size=int(random.integers(10, 141)), momentum=0.01)
    return models


def coordinates(n: int, n_rounds: int, device: str, **settings: Any) -> Models:
    """Return models of a search whose learners are trained in coordinates of the labelled rows."""
    models = search(n, n_rounds, device, **settings)
    for model in models:
        model.learner.set_params(basis="rows")
    return models


KINDS: dict[str, Callable[..., Models]] = {
    "one setting": one_setting,
    "search": search,
    "search, minibatches": minibatches,
    "search, rows": coordinates,
}


def alone(data: Dataset, model: GBGNNClassifier) -> float:
    """Train one model by itself; return its best validation accuracy."""
    val = (data.val, data.y[data.val])
    try:
        fit = clone(model).fit(data.train, data.y[data.train], graph=data.graph, validation=val)
    except WeakLearnerError:  # not even one round could be trained
        return 0.0
    return max(fit.history_["val_accuracy"])


def inputs_of(data: Dataset, model: GBGNNClassifier) -> PopulationInputs:
    val = (data.val, data.y[data.val])
    return PopulationInputs.from_model(
        model, data.train, data.y[data.train], graph=data.graph, validation=val
    )


def together(inputs: PopulationInputs, models: Models) -> list[float]:
    """Train all at once; return the best validation accuracies."""
    results = train_population(inputs, models)
    return [max(result.val_scores, default=0.0) for result in results]


def seconds(call: Callable[[], Any]) -> float:
    synchronize()
    started = time.perf_counter()
    call()
    synchronize()
    return time.perf_counter() - started


def synchronize() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def on_cpu(data: Dataset, n_rounds: int, members: Sequence[int], n_repeats: int) -> None:
    rows = []
    for kind, build in KINDS.items():
        for n in members:
            models = build(n, n_rounds, "cpu")
            inputs, few = inputs_of(data, models[0]), models[:: max(1, n // 4)]
            found = together(inputs, few)  # computes the rows that a study computes once
            agree = np.mean([alone(data, model) == best for model, best in zip(few, found, strict=True)])
            one, all_ = [], []
            for _ in range(n_repeats):
                one.append([seconds(lambda model=model: alone(data, model)) for model in models])
                all_.append(seconds(lambda inputs=inputs, models=models: together(inputs, models)))
            each, joint = float(np.min(one, axis=0).mean()), min(all_) / n
            rows.append([kind, n, each, joint, each / joint, float(agree)])
            print(rows[-1], flush=True)
    shown = [
        [kind, n, f"{a:.2f}", f"{b:.2f}", f"{r:.1f} x", f"{same:.0%}"] for kind, n, a, b, r, same in rows
    ]
    head = [
        "models",
        "members",
        "alone, s each",
        "at once, s each",
        "faster",
        "same best validation accuracy",
    ]
    title = f"Many models at once on {data.name}, {n_rounds} rounds"
    publish("population", title, table(head, shown), rows)


def on_gpu(data: Dataset, n_rounds: int, members: Sequence[int], n_repeats: int) -> None:
    rows = []

    def add(what: str, n: int, call: Callable[[], Any]) -> None:
        call()  # warms the device up
        torch.cuda.reset_peak_memory_stats()
        took = min(seconds(call) for _ in range(n_repeats))
        peak = torch.cuda.max_memory_allocated() / 2**30
        rows.append([what, n, f"{took:.2f}", f"{n / took:.1f}", f"{peak:.1f}"])
        print(rows[-1], flush=True)

    (single,) = one_setting(1, n_rounds, "cuda")
    inputs = inputs_of(data, single)
    add("alone, by fit", 1, lambda: alone(data, single))
    for n in members:
        models = one_setting(n, n_rounds, "cuda")
        add("one setting", n, lambda models=models: together(inputs, models))
    few = one_setting(4, n_rounds, "cuda")
    for what, build in list(KINDS.items())[1:]:
        models = build(max(members), n_rounds, "cuda")
        add(what, len(models), lambda models=models: together(inputs, models))
    for name in ("injection", "kta"):
        for what, build in (("search", search), ("search, rows", coordinates)):
            models = build(max(members), n_rounds, "cuda", aggregation=name)
            add(f"{what}, {name}", len(models), lambda models=models: together(inputs, models))
    on_gpu_too = together(inputs, few)
    on_cpu_too = [alone(data, clone(model).set_params(device="cpu")) for model in few[:4]]
    lines = [
        *table(["models", "members", "s", "trials/s", "peak, GiB"], rows),
        "",
        "Best validation accuracies of the first four members, on the GPU and one by one on the CPU: "
        f"{on_gpu_too[:4]}, {on_cpu_too}.",
    ]
    publish("population_gpu", f"Many models at once on {data.name}, {n_rounds} rounds, GPU", lines, rows)


if __name__ == "__main__":
    main()
