"""``gbgnn certify`` and ``gbgnn smoothing``: what the theory says of a run, and of a graph."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gbgnn
from gbgnn.cli import screen
from gbgnn.cli.files import Saved, open_saved
from gbgnn.cli.held_out import (
    bound_others,
    describe_bound,
    find_population,
    is_fully_labelled,
    show_bound,
)
from gbgnn.cli.source import Source
from gbgnn.errors import AbsentError, DataError, ParameterError

if TYPE_CHECKING:
    from gbgnn.datasets import Dataset
    from gbgnn.guarantees import ClusterBound
    from gbgnn.smoothing import SmoothingProfile
    from gbgnn.theory import Certificate, DepthBound, GeneralisationBound

_FACTS = ("holds", "met", "gamma_total", "best_round", "smoothness", "n_labelled")
_KINDS = {
    "sharp": {"form": "sharp"},
    "corrected": {"form": "corrected"},
    "as printed": {"form": "paper", "complexity": "closed"},
}
_CONDITION = ("round", "eta", "cosine", "alpha", "beta", "gamma", "gamma_total")
_OUTCOME = ("guaranteed", "actual", "loss", "gradient_norm")
_BARE = "a bare model file does not know its graph; name the data with --dataset."
_LEAST_WANTED = ("alpha", "beta", "gradient_norm", "eta", "loss")

Bounds = dict[str, "GeneralisationBound"]


def certify(
    saved_path: Path,
    delta: float = 0.5,
    confidence: float = 0.95,
    complexity: str = "closed",
    rounds: int = 20,
    plot: Path | None = None,
    held_out: str = "test",
    choices: int | None = None,
    clusters: bool = False,
    dataset: str | None = None,
    data_dir: Path | None = None,
    as_json: bool = False,
) -> None:
    """Show what is certain of the other nodes, and what every round promised and kept.

    First comes how many of the nodes in no part of the split are wrong at most, by the test nodes: of any
    model. Then what every round promised of the training loss and what it kept, and bounds of the test error
    by the training nodes alone. These speak of all that could have been learned, so they need learners with
    hard norms (gbgnn fit --learner constrained) and rule gradient. A bound of 1 or more is vacuous.
    """
    from gbgnn.plots import certificate_figure, check_figure_path, write_figure

    if plot is not None:
        check_figure_path(plot)  # before anything slow
    saved = open_saved(saved_path)
    model = gbgnn.load(saved.model_path)
    data, why_not = _own_data(model, saved, dataset, data_dir)
    others = describe_bound(
        *(None, why_not)
        if data is None
        else bound_others(model, data, part=held_out, n_choices=choices, confidence=confidence)
    )
    floor = None
    if clusters:
        if data is None:
            raise ParameterError(f"--clusters needs the data of the fit: {why_not}")
        floor = _bound_clusters(model, data, confidence)
    try:
        certificate, absent = model.certificate_, None
    except AbsentError as error:  # an average of models, or a loss that nothing bounds the curvature of
        certificate, absent = None, str(error)
    wanted = {"delta": delta, "confidence": confidence, "complexity": complexity}
    bounds, depth, reason = _bounds(model, saved, dataset, data_dir, data, **wanted)
    if plot is not None and certificate is None:
        raise ParameterError(f"--plot draws a certificate, but {absent}")
    if plot is not None:
        write_figure(certificate_figure(certificate, depth, f"Certificate of {saved_path}"), plot)
    if as_json:
        screen.emit_json(
            {
                "model": str(saved.model_path),
                **others,
                "clusters": None if floor is None else floor.to_dict(),
                "certificate": None if certificate is None else _describe(certificate),
                "no_certificate_because": absent,
                "bounds": {kind: bound.to_dict() for kind, bound in bounds.items()},
                "bound_by_depth": None if depth is None else depth.to_dict(),
                "no_bound_because": reason,
            }
        )
        return
    screen.out(f"{saved.model_path}: {screen.counted(len(model.train_nodes_), 'labelled node')}")
    show_bound(others, fully=True, class_names=saved.class_names)
    if floor is not None:
        screen.out(f"{floor}\n")
    if certificate is None:
        screen.out(f"no certificate: {absent}")
    else:
        _show_certificate(certificate, model, rounds)
    if reason is not None:
        screen.out(f"no bound of the test error: {reason}")
    else:
        _show_bounds(bounds)
    if depth is not None:
        _show_depth(depth)
    if plot is not None:
        screen.out(f"drawn to {plot}")


def _own_data(
    model: gbgnn.GBGNNClassifier, saved: Saved, dataset: str | None, data_dir: Path | None
) -> tuple[Dataset | None, str | None]:
    """Return the data of the fit with its labels and split, or why they are not there."""
    if dataset is None and "data" not in saved.config:
        return None, _BARE
    try:
        data = saved.source.override(dataset, data_dir).load()
    except DataError as error:
        return None, str(error)
    if data.graph.checksum != model.graph_checksum_:
        return None, f"the graph of {data.name} is not the one of the fit."
    return data, None


def _bound_clusters(model: gbgnn.GBGNNClassifier, data: Dataset, confidence: float) -> ClusterBound:
    """Return what is certain where all labels train: without one that was set aside."""
    recipe = model.model_.inputs.propagation
    rows, among = model.train_nodes_, find_population(data)
    return gbgnn.cluster_bound(
        data.graph, rows, data.y[rows], confidence=confidence, propagation=recipe, population=among
    )


def _describe(certificate: Certificate) -> dict[str, Any]:
    facts = {name: getattr(certificate, name) for name in _FACTS}
    return {**facts, "rounds": certificate.rows()}


def _bounds(
    model: gbgnn.GBGNNClassifier,
    saved: Saved,
    dataset: str | None,
    data_dir: Path | None,
    data: Dataset | None,
    **wanted: Any,
) -> tuple[Bounds, DepthBound | None, str | None]:
    """Return the bounds, by depth too where there is one score, or the reason why there are none."""
    from gbgnn.guarantees import covered_spaces

    try:
        covered_spaces(model.model_)
    except ParameterError as error:
        return {}, None, str(error)
    if dataset is None and "data" not in saved.config:
        return {}, None, _BARE
    source = saved.source.override(dataset, data_dir)
    graph = source.load_graph() if data is None else data.graph
    if saved.graph_checksum not in (None, graph.checksum):
        raise DataError(
            f"the graph of {source.dataset or source.nodes} is not the one of the fit (or changed since), so "
            "the bound would not be about this model; fit again."
        )
    if saved.graph_checksum is not None and graph.n_nodes != len(model.scores_):  # of inductive data
        return {}, None, "training saw a part of the graph only, and a bound is about the nodes of one graph."
    drawn = {} if data is None else _how_drawn(model, data)
    bounds = {
        kind: gbgnn.generalisation_bound(
            model, graph=graph, **wanted | how | (drawn if kind == "sharp" else drawn | {"strata": None})
        )
        for kind, how in _KINDS.items()
    }
    has_depth = model.scores_.shape[1] == 1 and _is_unweighted(model)
    depth = gbgnn.depth_bound(model, graph=graph, **wanted, **drawn) if has_depth else None
    return bounds, depth, None


def _how_drawn(model: gbgnn.GBGNNClassifier, data: Dataset) -> dict[str, Any]:
    """Return from which nodes the labelled ones were drawn, and by which split."""
    import numpy as np

    if not np.array_equal(np.sort(model.train_nodes_), np.sort(data.train)):  # some were set aside by the fit
        return {"population": find_population(data)}
    by_class = data.split.draw in ("strata", "per class") and is_fully_labelled(data)
    strata = data.y if by_class else None
    return {"population": find_population(data), "split": data.split, "strata": strata}


def _is_unweighted(model: gbgnn.GBGNNClassifier) -> bool:
    weights = model.model_.train.weights
    return bool((abs(weights - weights.mean()) <= 1e-9 * weights.mean()).all())


def _show_certificate(certificate: Certificate, model: gbgnn.GBGNNClassifier, n_shown: int) -> None:
    n_rounds, n_met = len(certificate.rounds), len(certificate.met)
    kept = "every promise was kept" if certificate.holds else "A PROMISE WAS BROKEN"
    screen.out(f"condition met in {n_met} of {screen.counted(n_rounds, 'round')}; {kept}")
    for note in certificate.notes:
        screen.out(f"  {note}")
    if n_shown:
        best, columns = certificate.best_round - 1, (*_CONDITION, *_OUTCOME)
        screen.show_records(certificate.rows(), columns, n_shown=n_shown, best=best, drop=_LEAST_WANTED)
    # By another metric no round's training error was kept, and of weighted nodes the bound is of another.
    is_counted = model.metric_.name == "accuracy" and _is_unweighted(model)
    weighted = "" if _is_unweighted(model) else "weighted "
    error = f"{1 - model.history_['train_accuracy'][certificate.best_round - 1]:.4f} " if is_counted else ""
    corrected, printed = (certificate.training_bounds(form=form)[-1] for form in ("corrected", "paper"))
    screen.out(
        f"* t*, the round of smallest gradient: {weighted}training error {error}<= {_bound(corrected)} "
        f"(printed form, which does not hold: {_bound(printed)})"
    )
    screen.out()


def _show_bounds(bounds: Bounds) -> None:
    first = next(iter(bounds.values()))
    screen.out(f"test error, with confidence {first.confidence:g}, is at most")
    names = ("training", "complexity", "partition", "deviation", "imbalance", "total")
    words = {"training": f"training error at margin {first.delta:g}", "imbalance": "imbalance of strata"}
    rows = [
        [words.get(name, name), *(_bound(getattr(bound, name)) for bound in bounds.values())]
        for name in names
        if name not in ("partition", "imbalance") or any(getattr(bound, name) for bound in bounds.values())
    ]
    screen.show_table(["term", *bounds], rows, left=("term",))
    for note in dict.fromkeys(note for bound in bounds.values() for note in bound.notes):
        screen.out(f"  {note}")
    said = [kind for kind, bound in bounds.items() if kind != "as printed" and not bound.is_vacuous]
    screen.out(f"not vacuous: {', '.join(said)}" if said else "vacuous: every error is at most 1")


def _show_depth(depth: DepthBound) -> None:
    exponent, decay = screen.number(depth.gamma_exponent, ".3f"), screen.number(depth.decay, ".3f")
    holds = "both hold" if depth.conditions_hold else "not both hold"
    smallest = min(depth.totals)
    screen.out(
        f"by depth, training error bounded too: smallest at round {depth.best_depth}, {_bound(smallest)}"
        f"{' (vacuous)' if depth.is_vacuous else ''}. It falls with depth when Gamma grows like a power of T "
        f"(exponent here: {exponent}, wanted > 0) and what rounds add decays (ratio: {decay}, wanted < 1): "
        f"on this run {holds}"
    )


def _bound(value: float) -> str:
    return "no bound" if math.isinf(value) else f"{value:.4g}"


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
    from gbgnn.plots import check_figure_path, smoothing_figure, write_figure
    from gbgnn.registry import as_part

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
