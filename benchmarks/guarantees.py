"""What can be promised on Cora, CiteSeer and PubMed: every kind of bound beside the error that came of it.

All draws are such as the bounds assume. Nodes without a label (15 of CiteSeer) are no part of the population.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from common import PLANETOID, RESULTS, Runner, publish, table

from gbgnn import (
    ConstrainedMLP,
    GBGNNClassifier,
    NodeSplit,
    cluster_bound,
    datasets,
    generalisation_bound,
    holdout_bound,
)
from gbgnn.datasets import Dataset, random_split, uniform_split

ALL_TRAIN = "all labels train"
TERMS = ("training", "complexity", "partition", "deviation", "total")
MARGIN = {"delta": 0.5, "confidence": 0.95}
WAYS: Mapping[str, dict[str, Any]] = {
    "sharp, Monte Carlo": {"complexity": "monte_carlo", "n_draws": 300},
    "sharp, closed": {},
    "corrected, closed": {"form": "corrected"},
    "as printed (no theorem)": {"form": "paper"},
}


def held_out(data: Dataset, split: NodeSplit, seed: int) -> dict[str, float]:
    """Fit a small model, and compare what the held-out nodes promise of the others with what is so."""
    model = GBGNNClassifier(preset="fast", n_rounds=5, random_state=seed)
    model.fit(split.train, data.y[split.train], graph=data.graph)
    known = np.flatnonzero(data.y >= 0)
    bound = holdout_bound(model, split.test, data.y[split.test], population=known, split=split)
    assert bound.assumption_holds
    others = np.setdiff1d(known, np.concatenate([split.train, split.test]))
    return {
        "n_train": len(split.train),
        "n_held_out": len(split.test),
        "n_others": len(others),
        "error": 1 - model.score(others, data.y[others]),
        "bound": bound.bound,
    }


def all_train(data: Dataset, seed: int) -> dict[str, Any]:
    """Give half of the nodes their labels, all of which train; return what is certain of the others."""
    split = uniform_split(data.y, 0.5, 0.0, seed=seed)
    known, y = np.flatnonzero(data.y >= 0), data.y[split.train]
    clusters = cluster_bound(data.graph, split.train, y, population=known)
    model = GBGNNClassifier(learner=ConstrainedMLP(), n_rounds=5, random_state=seed)
    model.fit(split.train, y, graph=data.graph)
    bounds = {
        way: generalisation_bound(model, population=known, split=split, **MARGIN, **how).to_dict()
        for way, how in WAYS.items()
    }
    return {
        "clusters": {
            **{key: getattr(clusters, key) for key in ("bound", "hops", "n_clusters", "n_tried")},
            "error": float(np.mean(clusters.predictions[split.test] != data.y[split.test])),
        },
        "error": 1 - model.score(split.test, data.y[split.test]),
        "train_error": 1 - model.score(split.train, y),
        "bounds": bounds,
    }


SPLITS = {
    "20 of each class train, 500 held out": partial(random_split, per_class=20, n_val=0, n_test=500),
    "two fifths train, a tenth held out": partial(uniform_split, train=0.4, val=0.0, test=0.1),
}


def measure(name: str, what: str, seed: int) -> dict[str, Any]:
    """Return what is found on one graph by one draw: of held-out nodes, or where all labels train."""
    data = datasets.load(name)
    if what == ALL_TRAIN:
        return all_train(data, seed)
    return held_out(data, SPLITS[what](data.y, seed=seed), seed)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=20, help="of labels, for the held-out bounds")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--page", action="store_true", help="of what is known already, nothing more is run")
    options = parser.parse_args()
    runner = Runner(measure, RESULTS / "guarantees.jsonl", options.jobs)
    graphs = tuple(reversed(PLANETOID))  # what takes longest begins
    tasks = [(name, ALL_TRAIN, 0) for name in graphs]
    tasks += [(name, what, seed) for what in SPLITS for name in graphs for seed in range(options.draws)]
    if not options.page:
        runner(tasks)
    title = "What can be promised on Cora, CiteSeer and PubMed"
    publish("guarantees", title, page(runner, tasks), runner.known)


def page(runner: Runner, tasks: list[tuple[str, str, int]]) -> list[str]:
    """Return the lines of the page."""
    known = {task: runner.find(task) for task in tasks if runner.find(task) is not None}
    rows, floors, margins = [], [], []
    for name in PLANETOID:
        for what in SPLITS:
            draws = [result for task, result in known.items() if task[:2] == (name, what)]
            if not draws:
                continue
            errors, bounds = (np.array([draw[key] for draw in draws]) for key in ("error", "bound"))
            sizes = [f"{draws[0][key]:,}" for key in ("n_train", "n_held_out", "n_others")]
            rows.append([name, what, *sizes, f"{errors.mean():.3f}", f"**{bounds.mean():.3f}**"])
            rows[-1].append(f"{int((errors > bounds).sum())} of {len(draws)}")
        each = known.get((name, ALL_TRAIN, 0))
        if each is None:
            continue
        floor = each["clusters"]
        grown = f"{floor['n_clusters']} clusters, {floor['hops']} hops"
        floors.append([name, grown, f"{floor['error']:.3f}", f"**{floor['bound']:.3f}**"])
        for way, bound in each["bounds"].items():
            terms = [f"{bound[key]:.3g}" for key in TERMS]
            verdict = "vacuous" if bound["is_vacuous"] else "says something"
            margins.append([name, way, *terms, verdict, f"{each['error']:.3f}"])
    return [
        "Held-out bound, 95 %, of the paper's method (5 rounds of `preset='fast'`, nothing chosen): means "
        "over draws of labels. One draw in twenty may fail.",
        "",
        *table(
            ("graph", "labels", "train", "held out", "others", "their error", "bound", "bound was too small"),
            rows,
        ),
        "",
        "Half of the nodes, uniformly drawn, have labels and all of them train; one draw. The commonest "
        "class of a node's cluster, 95 %:",
        "",
        *table(("graph", "best of those tried", "its error on the others", "bound"), floors),
        "",
        "The same half. Margin bounds of a linear `ConstrainedMLP`, 5 rounds, margin 0.5, steps as they were "
        "(the printed form: as if fixed before):",
        "",
        *table(("graph", "form", *TERMS, "verdict", "error of the others"), margins),
        "",
        "Numbers of clusters and of hops that `cluster_bound` tries were settled with a look at Cora and "
        "PubMed, at draws of labels such as these.",
    ]


if __name__ == "__main__":
    main()
