"""A checkout against another commit, measured in one run, each in a process of its own and in turn.

- ``fits``: default fits on Cora, CiteSeer and PubMed with validation nodes.
- ``rounds``: a round of Adj + SAMME with 64 units and 100 epochs, set-up included (a fit of 5 rounds, by 5);
  ``--peer COMMAND`` runs a third program in the same turns, which prints ``{"cora": seconds a round, …}``.
- ``population``: models trained at once on Cora (``--members``), 20 rounds each: one setting; drawn as a
  search draws them, on the features or in coordinates of the labelled rows; KTA.
- ``search``: a whole search of 16 trials on Cora, trial by trial and eight at a time.
- ``memory``: peak memory of a prediction on another graph against the rounds, each in a fresh process.
- ``large``: 10 million nodes, 200 million entries, 64 features, 4 classes, 200,000 labels, 20 rounds.

Data is loaded before the clock, and every fit gets a ``Graph`` of its own, in which no earlier fit can have
left anything. Fastest and median of the repeats: a shared machine only ever adds to a time.

On a machine with a GPU ``--device cuda`` measures ``fits``, ``population`` and ``large`` there and writes
``side_by_side_gpu``. Where there is
no repository, ``--base FOLDER`` names a folder with the other sources, and ``PYTHONPATH=src`` stands in for
an installation.
"""

from __future__ import annotations

import json
import shlex
import statistics
import subprocess
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from common import PLANETOID, publish, table
from sides import BASE, Worker, add_base, alternating, describe, times, times_header, trees, workers

SECTIONS = ("fits", "rounds", "population", "search", "memory", "large")
KINDS = ("one setting", "search", "search, rows", "kta")
WAYS = ("one by one", "eight at a time")
ROUNDS = (5, 10, 20, 40)
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "1000000"}
"""An array of a megabyte goes back to the system when it is freed: a peak is what was held at once."""
LAPS = ("first", "data", "graph", "fit", "predict", "total")

Results = dict[str, dict[str, list[dict[str, Any]]]]
"""By what was measured, then by side, a result of every repeat."""


def main() -> None:
    options = parse()
    about: dict[str, Any] = {}
    lines, data = [], {}
    with trees(options.base, options.only) as sides:
        for section in options.sections:
            results = MEASURE[section](sides, options, about)
            lines += ["", *SHOW[section](results, options)]
            data[section] = results
        head = describe(options, list(sides), about)
    publish(options.name, "Side by side", [head, *lines], {"about": about, **data})


def parse() -> Namespace:
    parser = ArgumentParser(description=__doc__.splitlines()[0])
    add_base(parser, BASE)
    parser.add_argument("--only", choices=("base", "new"), help="measure one side")
    parser.add_argument("--sections", help="comma-separated: " + ",".join(SECTIONS))
    parser.add_argument("--data", nargs="+", default=list(PLANETOID), choices=PLANETOID)
    parser.add_argument("--repeats", type=int, default=7, help="of fits and rounds")
    parser.add_argument("--memory-repeats", type=int, default=2)
    parser.add_argument("--memory-nodes", type=int, default=200_000)
    parser.add_argument("--peer", help="command that prints {set: seconds a round} as JSON")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--members", type=int, help="of a population; 16, and 512 on a GPU")
    parser.add_argument("--nodes", type=int, default=10_000_000)
    parser.add_argument("--entries", type=int, default=200_000_000)
    parser.add_argument("--labels", type=int, default=200_000)
    parser.add_argument("--large-rounds", type=int, default=20)
    parser.add_argument("--large-repeats", type=int, default=1)
    parser.add_argument("--name", help="of the results; side_by_side or side_by_side_gpu when not given")
    options = parser.parse_args()
    is_cpu = options.device == "cpu"
    usual = "fits,rounds,population,search,memory" if is_cpu else "fits,population,large"
    options.sections = (options.sections or usual).split(",")
    options.members = options.members or (16 if is_cpu else 512)
    if unknown := set(options.sections) - set(SECTIONS):
        parser.error(f"unknown sections {sorted(unknown)}")
    options.name = options.name or ("side_by_side" if is_cpu else "side_by_side_gpu")
    return options


def measure_fits(sides: Mapping[str, Path], options: Namespace, about: dict[str, Any]) -> Results:
    return in_turns("default_fit", options.data, sides, options, about, device=options.device)


def measure_population(sides: Mapping[str, Path], options: Namespace, about: dict[str, Any]) -> Results:
    settings = {"device": options.device, "n_members": options.members}
    return in_turns("population", KINDS, sides, options, about, **settings)


def measure_search(sides: Mapping[str, Path], options: Namespace, about: dict[str, Any]) -> Results:
    return in_turns("search", WAYS, sides, options, about)


def measure_rounds(sides: Mapping[str, Path], options: Namespace, about: dict[str, Any]) -> Results:
    return in_turns("samme_round", options.data, sides, options, about, options.peer)


def in_turns(
    task: str,
    cases: Sequence[str],
    sides: Mapping[str, Path],
    options: Namespace,
    about: dict[str, Any],
    peer: str | None = None,
    **settings: Any,
) -> Results:
    """Measure every case of a task, the sides in turn; the first of each is not counted."""
    results: Results = {name: {side: [] for side in sides} for name in cases}
    with workers(sides) as at:
        about.update({side: worker.about for side, worker in at.items()})
        for name in cases:
            for side in sides:
                at[side](task, name=name, seed=0, **settings)
        for repeat in range(options.repeats):
            for name in cases:
                for side in alternating(list(sides), repeat):
                    results[name][side].append(at[side](task, name=name, seed=repeat, **settings))
            if peer is not None:
                done = subprocess.run(shlex.split(peer), stdout=subprocess.PIPE, text=True, check=True)
                seconds = json.loads(done.stdout.splitlines()[-1])
                for name in cases:
                    results[name].setdefault("peer", []).append({"seconds": seconds[name]})
    return results


def measure_memory(sides: Mapping[str, Path], options: Namespace, about: dict[str, Any]) -> Results:
    results: Results = {str(rounds): {side: [] for side in sides} for rounds in ROUNDS}
    for repeat in range(options.memory_repeats):
        for rounds in ROUNDS:
            for side in alternating(list(sides), repeat):
                with Worker(sides[side], extra=MALLOC) as worker:
                    about[side] = worker.about
                    found = worker("predict_memory", n_rounds=rounds, n_nodes=options.memory_nodes)
                results[str(rounds)][side].append(found)
    return results


def measure_large(sides: Mapping[str, Path], options: Namespace, about: dict[str, Any]) -> Results:
    results: Results = {"large": {side: [] for side in sides}}
    for repeat in range(options.large_repeats):
        for side in alternating(list(sides), repeat):
            with Worker(sides[side]) as worker:
                about[side] = worker.about
                found = worker(
                    "large",
                    device=options.device,
                    n_nodes=options.nodes,
                    n_entries=options.entries,
                    n_labels=options.labels,
                    n_rounds=options.large_rounds,
                )
            print(side, json.dumps(found), flush=True)  # each takes long, and the next may fail
            results["large"][side].append(found)
    return results


def show_fits(results: Results, options: Namespace) -> list[str]:
    rows = [[name, *times(seconds_of(found)), *accuracies(found)] for name, found in results.items()]
    sides = list(next(iter(results.values())))
    header = ["data", *times_header(sides), *(f"test accuracy, {side}" for side in sides)]
    return [
        f"A default fit with validation, {options.repeats} repeats, each with another seed: fastest, median.",
        "",
        *table(header, rows),
    ]


def show_population(results: Results, options: Namespace) -> list[str]:
    sides = list(next(iter(results.values())))
    rows = []
    for name, found in results.items():
        rates = {side: [options.members / one["seconds"] for one in found[side]] for side in sides}
        best, usual = (
            [f"{measure(rates[side]):.1f}" for side in sides] for measure in (max, statistics.median)
        )
        rows.append([name, *best, *usual])
    header = [
        "models",
        *(f"{side}, models a second" for side in sides),
        *(f"{side}, median" for side in sides),
    ]
    told = f"{options.members} models at once, {options.repeats} repeats: fastest, median."
    return [told, "", *table(header, rows)]


def show_search(results: Results, options: Namespace) -> list[str]:
    rows = [[name, *times(seconds_of(found))] for name, found in results.items()]
    header = ["trials", *times_header(list(next(iter(results.values()))))]
    return [f"A search of 16 trials, {options.repeats} repeats: fastest, median.", "", *table(header, rows)]


def show_rounds(results: Results, options: Namespace) -> list[str]:
    rows = []
    for name, found in results.items():
        own = {side: found[side] for side in found if side != "peer"}
        row = [name, *times(seconds_of(own))]
        if "peer" in found:
            peer = [one["seconds"] for one in found["peer"]]
            row += [f"{min(peer):.3f}", f"{statistics.median(peer):.3f}"]
            for measure in (min, statistics.median):
                row += [f"{measure(peer) / measure(seconds):.1f} x" for seconds in seconds_of(own).values()]
        rows.append([*row, *accuracies(own)])
    sides = [side for side in next(iter(results.values())) if side != "peer"]
    header = ["data", *times_header(sides)]
    if options.peer:
        header += ["peer, s", "peer, median", *(f"peer / {side}" for side in sides)]
        header += [f"peer / {side}, medians" for side in sides]
    header += [f"test accuracy, {side}" for side in sides]
    peer = f" Peer: `{options.peer}`." if options.peer else ""
    return [
        f"A round of Adj + SAMME, 64 units, 100 epochs, set-up included, {options.repeats} repeats.{peer}",
        "",
        *table(header, rows),
    ]


def show_memory(results: Results, options: Namespace) -> list[str]:
    rows = []
    for rounds, found in results.items():
        peaks = [statistics.median(one["peak_mb"] for one in ones) for ones in found.values()]
        fastest = [min(one["seconds"] for one in ones) for ones in found.values()]
        rows.append([rounds, *(f"{peak:+,.0f}" for peak in peaks), *(f"{time:.2f}" for time in fastest)])
    sides = list(next(iter(results.values())))
    one = next(iter(results.values()))[sides[0]][0]
    return [
        f"Peak resident memory of `predict(nodes, graph=other)`, {options.memory_nodes:,} nodes, above what "
        f"the process held before: median, and the fastest time. The score matrix has "
        f"{one['scores_mb']:.1f} MB, the features {one['features_mb']:.1f}. `MALLOC_MMAP_THRESHOLD_` is "
        "fixed, so that what malloc keeps of freed arrays is not counted.",
        "",
        *table(["rounds", *(f"{side}, MB" for side in sides), *(f"{side}, s" for side in sides)], rows),
    ]


def show_large(results: Results, options: Namespace) -> list[str]:
    rows = []
    for side, ones in results["large"].items():
        fastest = min(ones, key=lambda one: one["seconds"]["total"])
        row: list[str] = [side, *(f"{fastest['seconds'][lap]:.2f}" for lap in LAPS)]
        row += [f"{statistics.median(one['seconds']['total'] for one in ones):.2f}"]
        peak = fastest["device_peak_gib"]
        row += ["" if peak is None else f"{peak:.1f}", f"{fastest['host_peak_gib']:.1f}"]
        rows.append([*row, f"{100 * fastest['accuracy']:.1f} %"])
    laps = ["a first tiny fit, s", "making the data, s", "`Graph`, s", "`fit`, s", "`predict`, s"]
    header = [
        "side",
        *laps,
        "the last three, s",
        "median, s",
        "device peak, GiB",
        "host peak, GiB",
        "accuracy",
    ]
    entries = next(iter(results["large"].values()))[0]["entries"]
    return [
        f"{options.nodes:,} nodes, {entries:,} entries, 64 features, 4 classes, {options.labels:,} labels, "
        f"{options.large_rounds} rounds on {options.device}, learners not kept; the fastest of "
        f"{options.large_repeats}. Accuracy is that of all nodes without a label.",
        "",
        *table(header, rows),
    ]


def seconds_of(found: Mapping[str, list[dict[str, Any]]]) -> dict[str, list[float]]:
    return {side: [one["seconds"] for one in ones] for side, ones in found.items()}


def accuracies(found: Mapping[str, list[dict[str, Any]]]) -> list[str]:
    means = [statistics.mean(one["accuracy"] for one in ones) for ones in found.values()]
    return [f"{100 * mean:.1f} %" for mean in means]


MEASURE = {
    "fits": measure_fits,
    "rounds": measure_rounds,
    "population": measure_population,
    "search": measure_search,
    "memory": measure_memory,
    "large": measure_large,
}
SHOW = {
    "fits": show_fits,
    "rounds": show_rounds,
    "population": show_population,
    "search": show_search,
    "memory": show_memory,
    "large": show_large,
}


if __name__ == "__main__":
    main()
