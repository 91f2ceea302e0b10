"""Whether sets and intervals hold the truth as often as they say, and how large they are.

Of one fit per graph (of classes preset="fast"), whose round up to 500 held-out nodes chose, the other
held-out nodes are cut 100 times at random into calibration nodes (500, at most half) and nodes to be judged.
In "refitted", for each of 100 draws models of its own are fitted: what it costs to calibrate on the very
nodes that chose the round, and what it costs to split them. Training nodes are always the same: what is drawn
is who of the others is whose calibration node.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from common import RESULTS, Runner, publish, table
from held_out_graphs import CLASSES, NUMBERS, HeldOutGraph, read

from gbgnn import Calibrated, GBGNNClassifier, GBGNNRegressor, PredictionIntervals, PredictionSets
from gbgnn.calibration import find_proba
from gbgnn.conformal import CLASS_SCORES, SetQuality, conformal_quantile
from gbgnn.conformal.quality import measure_by_degree
from gbgnn.diffusion import diffuse

CONFIDENCES = (0.9, 0.95)
MOST = 500
SETTINGS: dict[str, dict[str, Any]] = {
    "lac": {"score": "lac", "diffusion": 0.0},
    "lac, diffused": {"score": "lac", "diffusion": 0.5},
    "aps": {"score": "aps", "diffusion": 0.0},
    "aps, diffused (DAPS)": {"score": "aps", "diffusion": 0.5},
}
LEVELS = (0.025, 0.05, 0.5, 0.95, 0.975)
REFITTED = ("cora",)
N_DRAWS = 100


def cut(nodes: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return calibration nodes and nodes to be judged."""
    drawn = np.random.default_rng(seed).permutation(nodes)
    n = min(MOST, len(drawn) // 2)
    return drawn[:n], drawn[n:]


def choose_validation(data: HeldOutGraph, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes that choose the round, and the other held-out nodes."""
    drawn = np.random.default_rng(seed).permutation(data.held_out)
    n = min(MOST, len(drawn) // 3)
    return drawn[:n], drawn[n:]


def fit(data: HeldOutGraph, val: np.ndarray, seed: int, model: Any = None) -> Any:
    """Return a model whose round some nodes chose; of classes the paper's method, which is fast."""
    model = GBGNNClassifier(preset="fast") if model is None else model
    y = data.y
    model.set_params(random_state=seed)
    return model.fit(data.train, y[data.train], graph=data.graph, validation=(val, y[val]))


def run(task: str, name: str, draw: int = 0) -> Any:
    """Return what is measured of one graph, or of one draw with a fit of its own."""
    return {"classes": of_classes, "numbers": of_numbers, "refitted": refitted}[task](name, draw)


def of_classes(name: str, _: int) -> dict[str, Any]:
    """Return, for every setting and confidence, the quality of each draw; by degree for all draws."""
    data = read(name)
    val, rest = choose_validation(data, 10_000)
    model = fit(data, val, 0)
    cooled = Calibrated(model).fit(val, data.y[val])
    proba, cooled_proba = find_proba(model.model_), find_proba(cooled.model_)
    scores = {"lac, calibrated": find_scores(data, cooled_proba, SETTINGS["lac"])}
    scores |= {title: find_scores(data, proba, each) for title, each in SETTINGS.items()}
    targets = np.zeros(len(data.y), np.int64)
    targets[data.held_out] = model.task_.encode(data.y[data.held_out])
    check_first_draw(model, data, rest, scores, targets)
    accuracy = float(np.mean(model.predict(rest) == data.y[rest]))
    n_calibration = len(cut(rest, 0)[0])
    return {
        "accuracy": accuracy,
        "n_classes": len(model.classes_),
        "n_calibration": n_calibration,
        "n_judged": len(rest) - n_calibration,
        "sizes_of_unlabelled": size_without_labels(data, model),
        "settings": {title: draw_sets(S, data, rest, targets) for title, S in scores.items()},
    }


def find_scores(data: HeldOutGraph, proba: np.ndarray, setting: dict[str, Any]) -> np.ndarray:
    """Return the scores of all nodes and classes: PredictionSets would find them anew in every draw."""
    uniform = np.random.default_rng(0).random(len(proba))
    return diffuse(data.graph, CLASS_SCORES[setting["score"]](proba, uniform), setting["diffusion"])


def check_first_draw(
    model: Any, data: HeldOutGraph, rest: np.ndarray, scores: dict[str, np.ndarray], targets: np.ndarray
) -> None:
    """Raise unless sets of the first draw are those of PredictionSets."""
    cal, others = cut(rest, 0)
    for title, setting in SETTINGS.items():
        sets = PredictionSets(model, allow_empty=True, random_state=0, **setting).fit(cal, data.y[cal])
        limit = conformal_quantile(scores[title][cal, targets[cal]], 0.9)
        if not np.array_equal(sets.predict_set(others), scores[title][others] <= limit):
            raise AssertionError(f"{title}: these are not the sets of PredictionSets")


def draw_sets(
    scores: np.ndarray, data: HeldOutGraph, rest: np.ndarray, targets: np.ndarray
) -> dict[str, Any]:
    """Return, for every confidence, the quality of all draws, and what that is by degree."""
    found: dict[str, Any] = {str(level): {"draws": [], "by_degree": []} for level in CONFIDENCES}
    for draw in range(N_DRAWS):
        cal, others = cut(rest, draw)
        for level in CONFIDENCES:
            limit = conformal_quantile(scores[cal, targets[cal]], level)
            sets, truth, own = scores[others] <= limit, targets[others], found[str(level)]

            def measure(mask: np.ndarray, sets: Any = sets, truth: Any = truth, level: float = level) -> Any:
                return asdict(SetQuality.measure(sets[mask], truth[mask], level))

            own["draws"].append(measure(np.ones(len(others), bool)))
            own["by_degree"] += measure_by_degree(data.graph, others, measure)
    for own in found.values():
        own["by_degree"] = join_degrees(own["by_degree"])
    return found


def size_without_labels(data: HeldOutGraph, model: Any) -> dict[str, float]:
    """Return the mean size of sets of all held-out nodes, their labels unseen but for the calibration nodes.

    Settings may be compared by it without looking at a node that is judged.
    """
    val, rest = choose_validation(data, 10_000)
    found = {}
    for title, each in SETTINGS.items():
        sets = PredictionSets(model, **each).fit(val, data.y[val])
        found[title] = float(sets.predict_set(rest).sum(axis=1).mean())
    return found


def of_numbers(name: str, _: int) -> dict[str, Any]:
    """Return the same of intervals: residuals of the default, and conformalised quantiles of trees."""
    data = read(name)
    val, rest = choose_validation(data, 10_000)
    trees = {"learner": "trees", "neighbourhood": "wide", "aggregation": "identity"}
    models = {
        "residuals, default": fit(data, val, 0, GBGNNRegressor()),
        "quantiles, trees": fit(
            data, val, 0, GBGNNRegressor(loss="quantile", quantile=list(LEVELS), **trees)
        ),
    }
    n_calibration = len(cut(rest, 0)[0])
    return {
        "spread": float(np.std(data.y[rest])),
        "r2": {title: model.score(rest, data.y[rest]) for title, model in models.items()},
        "n_calibration": n_calibration,
        "n_judged": len(rest) - n_calibration,
        "settings": {
            title: draw_intervals(PredictionIntervals(model), data, rest) for title, model in models.items()
        },
    }


def draw_intervals(judged: Any, data: HeldOutGraph, rest: np.ndarray) -> dict[str, Any]:
    """Return, for every confidence, the quality of all draws, and what that is by degree."""
    found: dict[str, Any] = {str(level): {"draws": [], "by_degree": []} for level in CONFIDENCES}
    for draw in range(N_DRAWS):
        cal, others = cut(rest, draw)
        judged.fit(cal, data.y[cal])
        for level in CONFIDENCES:
            own = found[str(level)]
            own["draws"].append(asdict(judged.evaluate(others, data.y[others], confidence=level)))
            rows = judged.evaluate_by_degree(others, data.y[others], confidence=level)
            own["by_degree"] += [row | {"quality": asdict(row["quality"])} for row in rows]
    for own in found.values():
        own["by_degree"] = join_degrees(own["by_degree"])
    return found


def join_degrees(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for every group of degrees, the mean over all draws by their numbers of nodes."""
    groups: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["from"], row["to"]), []).append(row["quality"])
    joined = []
    for (low, high), own in sorted(groups.items()):
        weights = [each["n_nodes"] for each in own]
        size = "mean_size" if "mean_size" in own[0] else "mean_width"
        joined.append(
            {
                "from": low,
                "to": high,
                "nodes": float(np.mean(weights)),
                "coverage": float(np.average([each["coverage"] for each in own], weights=weights)),
                size: float(np.average([each[size] for each in own], weights=weights)),
            }
        )
    return joined


def refitted(name: str, draw: int) -> dict[str, Any]:
    """Return what sets are worth by who calibrates them, in one draw with fits of its own."""
    data = read(name)
    val, rest = choose_validation(data, draw)
    fresh, others = rest[: len(val)], rest[len(val) :]
    half = val[: len(val) // 2], val[len(val) // 2 :]
    y, whole, less = data.y, fit(data, val, draw), fit(data, half[0], draw)
    cases = {
        "the nodes that chose the round": (whole, val),
        "as many other nodes": (whole, fresh),
        "half of them, and the other half chose": (less, half[1]),
    }
    result: dict[str, Any] = {}
    for title, (model, cal) in cases.items():
        sets = PredictionSets(model, allow_empty=True, **SETTINGS["lac"]).fit(cal, y[cal])
        result[title] = {
            str(level): asdict(sets.evaluate(others, y[others], confidence=level)) for level in CONFIDENCES
        }
    return result


def describe(draws: Sequence[dict[str, Any]], size: str) -> list[str]:
    """Return coverage, its deviation over draws, and the size."""
    coverage = 100 * np.array([each["coverage"] for each in draws])
    sizes = np.mean([each[size] for each in draws])
    return [
        f"{coverage.mean():.1f} ± {coverage.std():.1f}",
        f"{sizes:.4g}" if size != "mean_size" else f"{sizes:.2f}",
    ]


def show_classes(found: dict[str, Any]) -> list[str]:
    rows, choices, degrees = [], [], []
    for name, each in found.items():
        choices.append([name, *(f"{size:.2f}" for size in each["sizes_of_unlabelled"].values())])
        for title, by_level in each["settings"].items():
            cells = []
            for own in by_level.values():
                draws = own["draws"]
                single = 100 * np.mean([d["singleton_share"] for d in draws])
                known = [d["singleton_accuracy"] for d in draws if d["singleton_accuracy"] is not None]
                right = f"{100 * np.mean(known):.0f}" if known else "-"
                cells += [*describe(draws, "mean_size"), f"{single:.0f} ({right})"]
            rows.append([f"{name} ({100 * each['accuracy']:.1f})", title, *cells])
            if title in ("lac", "aps, diffused (DAPS)"):
                parts = by_level["0.9"]["by_degree"]
                told = ", ".join(
                    f"{_degree(p)}: {100 * p['coverage']:.0f} ({p['mean_size']:.1f})"
                    for p in parts
                    if p["nodes"] >= 20
                )
                degrees.append([name, title, told])
    head = ["coverage, %", "size", "one class (right), %"]
    columns = [
        "graph (accuracy, %)",
        "score",
        *(f"{100 * c:g} %: {word}" for c in CONFIDENCES for word in head),
    ]
    return [
        *("## Sets of classes", ""),
        "Coverage is the mean and standard deviation over 100 draws, size the mean number of classes. Empty",
        "sets are allowed here, so that the promise is exact.",
        "",
        *table(columns, rows),
        "",
        *("## By degree, 90 %", ""),
        "Number of neighbours: coverage in % (mean size), groups of 20 judged nodes and more.",
        "",
        *table(["graph", "score", "degree: coverage (size)"], degrees),
        "",
        *("## Sizes without a look at labels that are judged", ""),
        "90 %, calibrated on the validation nodes: by this the default was chosen.",
        "",
        *table(["graph", *SETTINGS], choices),
    ]


def _degree(part: dict[str, Any]) -> str:
    return str(part["from"]) if part["from"] == part["to"] else f"{part['from']} to {part['to']}"


def show_numbers(found: dict[str, Any]) -> list[str]:
    rows, degrees = [], []
    for name, each in found.items():
        for title, by_level in each["settings"].items():
            cells = [cell for own in by_level.values() for cell in describe(own["draws"], "mean_width")]
            rows.append([name, f"{each['spread']:.3g}", f"{title} (R2 {each['r2'][title]:.2f})", *cells])
            parts = by_level["0.9"]["by_degree"]
            told = ", ".join(
                f"{_degree(p)}: {100 * p['coverage']:.0f} ({p['mean_width']:.3g})"
                for p in parts
                if p["nodes"] >= 20
            )
            degrees.append([name, title, told])
    columns = ["graph", "deviation of y", "intervals of"]
    columns += [f"{100 * c:g} %: {word}" for c in CONFIDENCES for word in ("coverage, %", "mean width")]
    return [
        *("## Intervals of numbers", ""),
        *table(columns, rows),
        "",
        *("## Intervals by degree, 90 %", ""),
        *table(["graph", "intervals of", "degree: coverage (width)"], degrees),
    ]


def show_refitted(found: dict[str, list[dict[str, Any]]]) -> list[str]:
    rows = []
    for name, draws in found.items():
        for title in draws[0]:
            cells = []
            for level in CONFIDENCES:
                own = [each[title][str(level)] for each in draws]
                mean = 100 * np.mean([each["coverage"] for each in own])
                error = 100 * np.std([each["coverage"] for each in own], ddof=1) / np.sqrt(len(own))
                cells += [f"{mean:.2f} ± {error:.2f}", f"{np.mean([each['mean_size'] for each in own]):.2f}"]
            rows.append([name, title, *cells])
    columns = [
        "graph",
        "calibrated on",
        *(f"{100 * c:g} %: {w}" for c in CONFIDENCES for w in ("coverage, %", "size")),
    ]
    return [
        *("## Refitted: may the nodes that chose the round calibrate?", ""),
        "100 draws, each with fits of its own; lac; coverage is the mean and its standard error.",
        "",
        *table(columns, rows),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--classes", nargs="*", default=CLASSES)
    parser.add_argument("--numbers", nargs="*", default=NUMBERS)
    parser.add_argument("--refitted", nargs="*", default=REFITTED)
    parser.add_argument("--draws", type=int, default=N_DRAWS, help="of the refitted")
    parser.add_argument("--cache", type=Path, default=RESULTS / "coverage.jsonl")
    asked = parser.parse_args()
    warnings.filterwarnings("ignore")  # calibrating on nodes that chose the round is what is measured
    runner = Runner(run, asked.cache, asked.jobs)
    tasks: list[tuple[Any, ...]] = [("classes", name) for name in asked.classes]
    tasks += [("numbers", name) for name in asked.numbers]
    tasks += [("refitted", name, draw) for name in asked.refitted for draw in range(asked.draws)]
    runner(tasks)
    classes = {name: runner.find(("classes", name)) for name in asked.classes}
    numbers = {name: runner.find(("numbers", name)) for name in asked.numbers}
    again = {
        name: [runner.find(("refitted", name, draw)) for draw in range(asked.draws)]
        for name in asked.refitted
    }
    lines = [*(__doc__ or "").strip().splitlines(), ""]
    lines += show_classes(classes) if classes else []
    lines += ["", *show_refitted(again)] if again else []
    lines += ["", *show_numbers(numbers)] if numbers else []
    data = {"one fit": _without_draws(classes, numbers), "refitted": _coverages(again)}
    publish("coverage", "Coverage of sets and intervals, 100 draws", lines, data)


def _coverages(found: dict[str, list[dict[str, Any]]]) -> Any:
    """Return the coverage of every draw with fits of its own, by graph, who calibrated, and confidence."""
    return {
        name: {
            title: {level: [each[title][level]["coverage"] for each in draws] for level in by_level}
            for title, by_level in draws[0].items()
        }
        for name, draws in found.items()
    }


def _without_draws(*found: dict[str, Any]) -> Any:
    """Return the results with means for the draws, which are many; the cache has them all."""
    means: dict[str, Any] = {}
    for name, each in ((name, each) for group in found for name, each in group.items()):
        settings = {}
        for title, by_level in each["settings"].items():
            settings[title] = {
                level: {
                    "by_degree": own["by_degree"],
                    **{
                        key: float(np.mean([d[key] for d in own["draws"] if d[key] is not None]))
                        for key in own["draws"][0]
                        if key not in ("sizes", "confidence")
                    },
                    "coverages": [d["coverage"] for d in own["draws"]],
                }
                for level, own in by_level.items()
            }
        means[name] = each | {"settings": settings}
    return means


if __name__ == "__main__":
    main()
