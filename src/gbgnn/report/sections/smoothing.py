"""Over-smoothing: what hops leave of the features, whatever is learned of them."""

from __future__ import annotations

from gbgnn.errors import GBGNNError
from gbgnn.report import figures
from gbgnn.report.content import Figure, Section
from gbgnn.report.subject import Subject
from gbgnn.report.words import counted, number, percent
from gbgnn.smoothing import SmoothingProfile, smoothing_profile

HOPS, RANK_LIMIT = 32, 600
MOST_WORK = 2e9  # products per hop, some seconds
_TITLE = "Over-smoothing"


def describe_smoothing(subject: Subject) -> Section:
    """Return how near repeated hops bring the features of the graph to where nodes are alike."""
    graph = subject.graph
    if graph is None:
        return Section("smoothing", _TITLE, missing=["The graph of this run is not at hand."])
    work = (graph.adjacency.nnz + graph.n_nodes) * graph.n_features
    if work > MOST_WORK:
        told = "Left out on a graph of this size, for it would take minutes; gbgnn smoothing measures it."
        return Section("smoothing", _TITLE, missing=[told])
    recipe = getattr(getattr(subject.model, "inputs", None), "propagation", "augmented")
    try:
        profile = smoothing_profile(graph, rounds=HOPS, propagation=recipe, rank_limit=RANK_LIMIT)
    except GBGNNError as error:
        return Section("smoothing", _TITLE, missing=[f"Not measured: {error}"])
    return _section(profile)


def _section(profile: SmoothingProfile) -> Section:
    paragraphs = [
        "Every hop multiplies the features by P. What lies outside the top eigenspace of P fades, and with "
        "it all that tells the nodes of a connected component apart. Boosting keeps the scores of early "
        "hops, so that a deep model need not lose them."
    ]
    drawn = []
    x = [float(t) for t in range(profile.rounds + 1)]
    missing = [f"{name.replace('_', ' ')}: {why}." for name, why in profile.missing.items()]
    if profile.distance is not None:
        left = percent(profile.distance[-1] ** 2)
        paragraphs.append(
            f"After {counted(profile.rounds, 'hop')} {left} of the signal (its squared norm) is left outside"
            + ("" if profile.lambda_2 is None else f"; the second eigenvalue is {abs(profile.lambda_2):.4g}")
            + "."
        )
        curves = {"measured": profile.distance}
        if profile.predicted is not None:
            curves["by the second eigenvalue"] = profile.predicted
        spec = figures.lines(x, curves, x_title="hops", y_title="distance", y_range=(0, 1.02))
        alt = (
            "Distance of the features from the top eigenspace, in norms of the features: "
            f"{number(profile.distance[0])} at first, {number(profile.distance[-1])} after "
            f"{profile.rounds} hops."
        )
        drawn.append(Figure("Distance to the space where nodes are alike", alt, spec))
    if profile.effective_rank is not None:
        rank = profile.effective_rank
        spec = figures.lines(x, {"effective rank": rank}, x_title="hops", y_title="effective rank")
        ends = f"{number(rank[0])} at first, {number(rank[-1])} after {profile.rounds} hops"
        alt = f"Effective rank of the features: {ends}."
        drawn.append(Figure("Effective rank of the features", alt, spec))
    return Section("smoothing", _TITLE, paragraphs, drawn, missing=missing)
