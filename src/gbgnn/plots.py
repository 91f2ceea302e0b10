"""Results as plots: of a certificate with its bounds, over-smoothing, importances, and reliability.

matplotlib is imported when a figure is made, and only its objects are used: there is no current figure, no
window and no global setting.
"""

from __future__ import annotations

import math
import os
import textwrap
from collections.abc import Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING

from gbgnn._files import atomic_path
from gbgnn.errors import ParameterError, import_needed
from gbgnn.reliability import Reliability
from gbgnn.smoothing import SmoothingProfile
from gbgnn.theory import Certificate, DepthBound

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


INK, QUIET, LINES = "#1f2937", "#6b7280", "#e5e7eb"
MEASURED, PREDICTED = "#2563eb", "#d97706"
# Without dates and versions the same result gives the same file.
_METADATA = {".png": {"Software": None}, ".svg": {"Date": None}, ".pdf": {"CreationDate": None}}


def write_figure(figure: Figure, path: str | os.PathLike[str]) -> None:
    """Write a figure; the ending of ``path`` says how: ``.png``, ``.svg`` or ``.pdf``.

    A reader never sees half of the file, and the same figure gives the same bytes.
    """
    import matplotlib

    check_figure_path(path)
    suffix = Path(path).suffix.lower()
    with matplotlib.rc_context({"svg.hashsalt": "gbgnn"}), atomic_path(path) as part:
        figure.savefig(part, format=suffix[1:], dpi=160, metadata=_METADATA[suffix])


def check_figure_path(path: str | os.PathLike[str]) -> None:
    """Raise unless :func:`write_figure` can write to ``path``; worth a call before a long computation."""
    if Path(path).suffix.lower() not in _METADATA:
        raise ParameterError(f"a figure's file must end in .png, .svg or .pdf; got {os.fspath(path)}.")
    blank("", width=1, height=1)


def blank(title: str, width: float, height: float) -> Figure:
    """Return an empty figure with a heading, sizes in inches."""
    import_needed("matplotlib.figure", "drawing figures", "plot")
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    padding = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12)
    figure = Figure(figsize=(width, height), layout=padding, facecolor="white")
    figure.suptitle(title, x=0.014, ha="left", color=INK, fontsize=13, fontweight="bold")
    return figure


def style(axes: Axes, heading: str) -> None:
    """Give axes a heading and the look they all have."""
    axes.set_title(heading, loc="left", color=INK, fontsize=10.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(LINES)
    axes.tick_params(which="both", colors=QUIET, labelsize=9, length=0)
    axes.grid(color=LINES, lw=0.8)
    axes.set_axisbelow(True)


def write_reason(axes: Axes, reason: str) -> None:
    """Write on the axes why there is no curve."""
    words = textwrap.fill(f"none: {reason}", 40)
    axes.text(0.5, 0.5, words, transform=axes.transAxes, ha="center", va="center", color=QUIET, fontsize=9)
    axes.set_yticks([])
    axes.grid(visible=False)


def choose_scale(axes: Axes, values: Sequence[float]) -> None:
    """Take a logarithmic axis for what changes by a factor of ten or more, else one that starts at zero."""
    from matplotlib.ticker import LogLocator, StrMethodFormatter

    finite = [v for v in values if math.isfinite(v)]
    high = max(finite)
    positive = [v for v in finite if v > 0]
    if min(finite) < -1e-12 * high or not positive:  # below zero by more than rounding, or zero throughout
        return
    ratio = high / min(positive)
    if ratio < 10:
        axes.set_ylim(0, 1.06 * high)
        return
    axes.set_yscale("log")
    if ratio < 1000:  # powers of ten alone would be two labels or fewer
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.yaxis.set_minor_locator(LogLocator(subs=()))


def certificate_figure(
    certificate: Certificate, depth: DepthBound | None = None, title: str = "Certificate"
) -> Figure:
    """Draw promise and outcome, angle, gradient, and the bound against the rounds.

    It is the bound of the test error by ``depth`` where given, else that of the training error.
    """
    figure = blank(title, width=9, height=6)
    (progress, angle), (gradient, bound) = figure.subplots(2, 2, sharex=True)
    rounds = certificate.rounds
    style(progress, "Fall of the training loss, all rounds so far")
    _plot(progress, list(accumulate(r.actual for r in rounds)), "actual", MEASURED)
    _plot(progress, list(accumulate(max(0.0, r.guaranteed) for r in rounds)), "guaranteed", PREDICTED)
    style(angle, "Weak learning condition")
    _plot(angle, [r.cosine for r in rounds], "cosine", MEASURED)
    steps = [math.nan if r.gamma is None else r.gamma for r in rounds]
    _plot(angle, steps, r"$\gamma$ of the step", PREDICTED)
    angle.axhline(0, color=QUIET, lw=0.8)
    style(gradient, "Norm of the gradient")
    norms = [r.gradient_norm for r in rounds]
    _plot(gradient, norms, "after the round", MEASURED)
    best = certificate.best_round
    gradient.plot([best], [norms[best - 1]], "o", color=PREDICTED, label=f"smallest: $t^*$ = {best}")
    choose_scale(gradient, norms)
    if depth is None:
        _draw_training_bounds(bound, certificate)
    else:
        _draw_test_bound(bound, depth)
    _finish(figure, "round")
    return figure


def _draw_training_bounds(axes: Axes, certificate: Certificate) -> None:
    style(axes, "Bound of the training error")
    corrected, printed = (certificate.training_bounds(form=form) for form in ("corrected", "paper"))
    if not any(map(math.isfinite, corrected)):
        write_reason(axes, "a round took a step that the condition does not allow")
        return
    _plot(axes, corrected, "corrected", MEASURED)
    _plot(axes, printed, "as printed, does not hold", QUIET, dashed=True)
    axes.axhline(1, color=PREDICTED, lw=0.8, label="vacuous from here up")
    choose_scale(axes, (*corrected, *printed))


def _draw_test_bound(axes: Axes, depth: DepthBound) -> None:
    style(axes, f"Bound of the test error, margin {depth.delta:g}")
    n_rounds = len(depth.totals)
    terms = {
        "training": (depth.training, "#d97706"),
        "complexity": (depth.complexity, "#059669"),
        "partition": ((depth.partition,) * n_rounds, "#7c3aed"),
        "deviation": ((depth.deviation,) * n_rounds, "#9ca3af"),
        "total": (depth.totals, INK),
    }
    for name, (values, color) in terms.items():
        _plot(axes, values, name, color)
    axes.axhline(1, color=PREDICTED, lw=0.8, ls=":", label="vacuous from here up")
    choose_scale(axes, [value for values, _ in terms.values() for value in values])


def smoothing_figure(profile: SmoothingProfile, title: str = "Over-smoothing") -> Figure:
    """Draw distance and its predicted decay, effective rank, energy and norm against the number of hops."""
    figure = blank(title, width=9, height=6)
    panels = figure.subplots(2, 2, sharex=True)
    columns = {
        "distance": "Distance to the top eigenspace, in norms of X",
        "effective_rank": "Effective rank",
        "energy": "Dirichlet energy",
        "norm": "Frobenius norm of X",
    }
    for axes, (name, heading) in zip(panels.flat, columns.items(), strict=True):
        style(axes, heading)
        values = getattr(profile, name)
        if values is None:
            write_reason(axes, profile.missing[name])
        else:
            _plot(axes, values, "measured", MEASURED, first=0)
            choose_scale(axes, values)
    if profile.predicted is not None:
        size = rf"$|\lambda_2|$ = {abs(profile.lambda_2 or 0):.4g}"
        kind = "bound" if profile.is_symmetric else "long-run pace"
        _plot(panels[0, 0], profile.predicted, f"{kind}, {size}", PREDICTED, first=0, dashed=True)
        choose_scale(panels[0, 0], [*(profile.distance or ()), *profile.predicted])
    _finish(figure, "hops t")
    return figure


def reliability_figure(found: Reliability, title: str = "Reliability") -> Figure:
    """Draw how often a classifier is right against how sure it is, and how many nodes are how sure.

    Examples
    --------
    >>> figure = reliability_figure(Reliability.measure([0.9, 0.6, 0.7], [True, True, False]))
    >>> [axes.get_title(loc="left") for axes in figure.axes]
    ['3 nodes, ECE 40.0 %', 'How many nodes are how sure']
    """
    figure = blank(title, width=5, height=5.5)
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    style(
        upper, f"{found.n_nodes:,} {'node' if found.n_nodes == 1 else 'nodes'}, ECE {100 * found.ece:.1f} %"
    )
    upper.plot([0, 1], [0, 1], color=PREDICTED, lw=1, ls=(0, (5, 3)), label="as sure as right")
    filled = found.counts > 0
    sure, right = found.confidence[filled], found.accuracy[filled]
    upper.plot(sure, right, color=MEASURED, lw=1.6, marker="o", ms=4, label="measured")
    upper.set_ylabel("share that is right", color=QUIET)
    upper.legend(frameon=False, labelcolor=INK, fontsize=8.5)
    style(lower, "How many nodes are how sure")
    widths = found.upper - found.lower
    lower.bar(found.lower, found.counts, width=widths, align="edge", color=MEASURED, edgecolor="white")
    lower.set_xlabel("probability of the predicted class", color=QUIET)
    lower.set_xlim(0, 1)
    return figure


def importances_figure(
    importances: Mapping[str, float], title: str = "Importances", n_shown: int = 20
) -> Figure:
    """Draw the largest of what a model's ``column_importances`` returned, as bars with their names."""
    shown = sorted(importances.items(), key=lambda item: -item[1])[:n_shown]
    names, shares = [name for name, _ in shown], [100 * share for _, share in shown]
    figure = blank(title, width=7, height=1.2 + 0.28 * len(shown))
    axes = figure.subplots()
    style(axes, f"Importance of {len(importances)} columns, in %")
    axes.barh(range(len(shown)), shares, color=MEASURED, height=0.7)
    axes.set_yticks(range(len(shown)), [textwrap.shorten(name, 60, placeholder=" ...") for name in names])
    for label in axes.get_yticklabels():
        label.set_parse_math(False)  # a name with two dollars is no formula
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    return figure


def _plot(
    axes: Axes, values: Sequence[float], label: str, color: str, *, first: int = 1, dashed: bool = False
) -> None:
    shown = [value if math.isfinite(value) else math.nan for value in values]
    marker = "o" if len(values) <= 40 and not dashed else ""
    line, steps = (0, (5, 3)) if dashed else "-", range(first, first + len(values))
    axes.plot(steps, shown, color=color, lw=1.6, marker=marker, ms=3, ls=line, label=label)


def _finish(figure: Figure, steps: str) -> None:
    """Give a legend to axes with several curves, and the lower ones a name for their steps."""
    for axes in figure.axes:
        n_curves = len(axes.get_legend_handles_labels()[0])
        if n_curves > 1:
            axes.legend(frameon=False, labelcolor=INK, fontsize=8.5, ncols=1 + n_curves // 5)
    for axes in figure.axes[2:]:
        axes.set_xlabel(steps, color=QUIET)
        axes.locator_params(axis="x", integer=True)
