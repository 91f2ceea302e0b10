"""``gbgnn smoothing``: how fast mixing along a graph makes its nodes alike."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

import gbgnn
from gbgnn.cli import screen
from gbgnn.cli.files import Source

if TYPE_CHECKING:
    from gbgnn.smoothing import SmoothingProfile


def smoothing(
    dataset: str = "digits",
    rounds: int = 32,
    propagation: str = "augmented",
    rank_limit: int = 2000,
    plot: Path | None = None,
    data_dir: Path | None = None,
    normalize: bool | None = None,
    data_option: list[str] | None = None,
    as_json: bool = False,
) -> None:
    """Show what is left of the features after every hop, before anything is trained.

    Every hop multiplies the features by P. What lies outside its top eigenspace fades like the powers of
    lambda_2, and with it all that tells the nodes of a connected component apart.
    """
    from gbgnn.registry import as_part
    from gbgnn.reports import check_figure_path, smoothing_figure, write_figure

    if plot is not None:
        check_figure_path(plot)  # before anything slow
    recipe = as_part("propagation", propagation)
    source = Source().override(dataset, data_dir, normalize=normalize, options=data_option)
    graph = source.load_graph()
    profile = gbgnn.smoothing_profile(graph, rounds=rounds, propagation=recipe, rank_limit=rank_limit)
    if plot is not None:
        write_figure(smoothing_figure(profile, f"Over-smoothing: {dataset}, P {propagation}"), plot)
    if as_json:
        facts = {"dataset": dataset, "propagation": propagation, "n_nodes": graph.n_nodes, **profile.facts()}
        screen.emit_json(facts | {"meaning": explain(profile), "rounds": profile.rows()})
        return
    screen.out(
        f"{dataset}: {screen.counted(graph.n_nodes, 'node')}, {screen.counted(graph.n_edges, 'edge')}, "
        f"{screen.counted(graph.n_features, 'feature')}; P {propagation}"
    )
    columns = ("t", "norm", "distance", "predicted", "energy", "effective_rank")
    heads = {"t": "hop", "effective_rank": "rank"}
    screen.show_records(profile.rows(), columns, heads=heads, n_shown=17, drop=("predicted", "norm"))
    if profile.rounds:
        curves = {"distance": profile.distance, "effective_rank": profile.effective_rank}
        drawn = screen.draw_curves(curves, ".4g", indent=16)
        if drawn:
            screen.out(f"{drawn}\n")
    _show_spectrum(profile)
    screen.out()
    screen.out(explain(profile))
    if plot is not None:
        screen.out(f"drawn to {plot}")


def explain(profile: SmoothingProfile) -> str:
    """Return what a profile means, in a sentence or two."""
    if profile.distance is None:
        return "How near the features come to the top eigenspace is not known, because it was not found."
    if 0 in profile.norm:
        t = profile.norm.index(0)
        left = f"{_after(t)} nothing is left: P sends the features to zero."
        return left if t else "The features are zero."
    reached = profile.hops_until(0.99)
    t = profile.rounds if reached is None else reached
    percent = math.floor(100 * (1 - profile.distance[t] ** 2)) if reached is None else 99
    one_each = profile.top_dimension is not None and 0 < profile.top_dimension <= profile.n_components
    there = ", where nodes of one component differ by a fixed factor only" if one_each else ""
    outlook = _outlook(profile) if reached is None else ""
    share = f"{_after(t)} {percent} % of the signal (its squared norm)"
    return f"{share} is in the top eigenspace{there}{outlook}."


def _after(t: int) -> str:
    return "Before the first hop" if t == 0 else f"After {screen.counted(t, 'hop')}"


def _outlook(profile: SmoothingProfile) -> str:
    bound = profile.hops_bound(0.99)
    if bound is not None:
        return f"; 99 % are certain after {screen.counted(bound, 'hop')}"
    second, top = profile.lambda_2, profile.top_eigenvalues
    if second is not None and top is not None and abs(second) >= 0.999999 * top[0]:
        return "; the rest need not fade, because lambda_2 is not smaller than every top eigenvalue"
    return ""


def _show_spectrum(profile: SmoothingProfile) -> None:
    isolated = f", {screen.counted(profile.n_isolated, 'isolated node')}" if profile.n_isolated else ""
    facts = {"components": f"{profile.n_components:,}{isolated}"}
    if profile.top_dimension is not None:
        top = profile.top_eigenvalues
        span = [] if top is None else [f"{value:.4g}" for value in top]
        size = f", eigenvalue {' to '.join(dict.fromkeys(span))}" if span else ""
        facts["top eigenspace"] = f"{screen.counted(profile.top_dimension, 'direction')}{size}"
    if profile.lambda_2 is not None:
        facts["lambda_2"] = f"{profile.lambda_2:.6g}"
    facts |= {name: f"none: {reason}" for name, reason in profile.missing.items()}
    for name, words in facts.items():
        screen.out(f"  {name:<16} {words}")
