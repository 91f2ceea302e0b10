"""How sure it is: reliability of probabilities, sets of classes, intervals of numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from gbgnn.report import figures
from gbgnn.report.content import Figure, Section, Table
from gbgnn.report.evidence.trust import AS_IS, Trust
from gbgnn.report.words import counted, listed, number, of_part, percent

_TITLE = "How sure it is"


def describe_trust(found: Trust) -> Section:
    """Return reliability before and after calibration, and what sets or intervals are worth."""
    if "all" in found.why_not:
        return Section("trust", _TITLE, missing=[f"Not measured: {found.why_not['all']}"])
    paragraphs, drawn, tables = [], [], []
    if found.learned_on[0]:
        held, test = (f"the {n:,} {of_part(name)} nodes" for name, n in (found.learned_on, found.measured_on))
        paragraphs.append(f"What follows was learned on {held} and measured on {test}.")
    if found.reliability:
        paragraphs.append(_told_of_reliability(found))
        drawn.append(_reliability(found))
        tables.append(_errors(found))
    if found.quality:
        is_sets = hasattr(found.quality[0], "sizes")
        paragraphs.append((_told_of_sets if is_sets else _told_of_intervals)(found))
        tables.append((_sets if is_sets else _intervals)(found.quality))
        if is_sets:
            drawn.append(_sizes(found.quality[0]))
        drawn.append(_by_degree(found))
    paragraphs += found.caveats
    missing = [f"Not measured ({name}): {why}" for name, why in found.why_not.items()]
    return Section("trust", _TITLE, paragraphs, drawn, tables, missing=missing)


def _told_of_reliability(found: Trust) -> str:
    own = found.reliability[AS_IS]
    sure = float(np.nansum(own.counts * own.confidence) / own.n_nodes)
    right = float(np.nansum(own.counts * own.accuracy) / own.n_nodes)
    how = "surer than it is right" if sure > right else "less sure than it could be"
    gaps = [f"{percent(each.ece)} {_with(name)}" for name, each in found.reliability.items()]
    return (
        f"As it is, the model is {percent(sure)} sure on average and right {percent(right)} of the time: "
        f"{how}. The mean gap between both (ECE) is {listed(gaps)}."
    )


def _with(name: str) -> str:
    return name if name == AS_IS else f"with {name}"


def _reliability(found: Trust) -> Figure:
    curves = {
        name: (own.confidence.tolist(), own.accuracy.tolist(), own.counts.tolist())
        for name, own in found.reliability.items()
    }
    gaps = [f"{name} {percent(own.ece)}" for name, own in found.reliability.items()]
    alt = f"How often predictions are right by how sure they are. Mean gap: {', '.join(gaps)}."
    rows = []
    for name, own in found.reliability.items():
        for row in own.rows():
            between = f"{percent(row['lower'], 0)} to {percent(row['upper'], 0)}"
            means = percent(row["confidence"]), percent(row["accuracy"])
            rows += [[name, between, f"{row['counts']:,}", *means]] if row["counts"] else []
    heads = ["probabilities", "sure between", "nodes", "sure on average", "right"]
    numbers = Table(heads, rows, "Reliability, bin by bin", frozenset({1, 2, 3, 4}))
    return Figure("How often it is right, by how sure it is", alt, figures.reliability(curves), numbers, 380)


def _errors(found: Trust) -> Table:
    rows = [[name, percent(own.ece), percent(own.mce)] for name, own in found.reliability.items()]
    return Table(["probabilities", "mean gap (ECE)", "largest gap"], rows, "Calibration", frozenset({1, 2}))


def _told_of_sets(found: Trust) -> str:
    own = found.quality[0]
    single = f"{percent(own.singleton_share, 0)} of the sets have one class only"
    if own.singleton_accuracy is not None:
        single += f", of which {percent(own.singleton_accuracy)} are right"
    return (
        f"Sets of classes: of nodes like those they were learned on, {percent(own.confidence, 0)} have their "
        f"class in their set. Measured: {percent(own.coverage)} of {counted(own.n_nodes, 'node')}, with "
        f"{number(own.mean_size, '.2f')} classes in a set on average; {single}."
    )


def _told_of_intervals(found: Trust) -> str:
    own = found.quality[0]
    return (
        f"Intervals: of nodes like those they were learned on, {percent(own.confidence, 0)} have their "
        f"number in their interval. Measured: {percent(own.coverage)} of {counted(own.n_nodes, 'node')}; "
        f"intervals are {number(own.mean_width)} wide on average."
    )


def _sets(quality: list[Any]) -> Table:
    rows = [
        [
            percent(own.confidence, 0),
            percent(own.coverage),
            number(own.mean_size, ".2f"),
            percent(own.singleton_share),
            percent(own.singleton_accuracy),
        ]
        for own in quality
    ]
    heads = ["promised", "covered", "classes in a set", "sets of one class", "of these right"]
    return Table(heads, rows, "Sets of classes", frozenset(range(5)))


def _intervals(quality: list[Any]) -> Table:
    rows = [
        [percent(own.confidence, 0), percent(own.coverage), number(own.mean_width), number(own.median_width)]
        for own in quality
    ]
    heads = ["promised", "covered", "mean width", "median width"]
    return Table(heads, rows, "Intervals", frozenset(range(4)))


def _sizes(own: Any) -> Figure:
    last = max(size for size, n in enumerate(own.sizes) if n)
    names = [counted(size, "class", "classes") for size in range(last + 1)]
    shares = [n / own.n_nodes for n in own.sizes[: last + 1]]
    told = [f"{name} {percent(share)}" for name, share in zip(names, shares, strict=True)]
    spec = figures.bars(names, shares, x_title="share of the nodes", percent=True)
    title = f"How many classes a set of {percent(own.confidence, 0)} has"
    return Figure(title, f"{title}: {', '.join(told)}.", spec, None, 110 + 26 * len(names))


def _by_degree(found: Trust) -> Figure:
    names = [_neighbours(row["from"], row["to"]) for row in found.by_degree]
    shares = [row["quality"].coverage for row in found.by_degree]
    rows = [
        [name, f"{row['quality'].n_nodes:,}", percent(share)]
        for name, row, share in zip(names, found.by_degree, shares, strict=True)
    ]
    told = [f"{name} {percent(share)}" for name, share in zip(names, shares, strict=True)]
    spec = figures.bars(names, shares, x_title="covered", percent=True)
    level = percent(found.quality[0].confidence, 0)
    numbers = Table(["neighbours", "nodes", "covered"], rows, "Coverage by neighbours", frozenset({1, 2}))
    title = f"Covered at {level}, by the number of neighbours"
    return Figure(title, f"{title}: {', '.join(told)}.", spec, numbers, 110 + 26 * len(names))


def _neighbours(low: int, high: int) -> str:
    return counted(low, "neighbour") if low == high else f"{low} to {high} neighbours"
