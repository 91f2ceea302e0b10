"""The figure of a certificate, and of the bound by depth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from gbgnn.reports.canvas import INK, MEASURED, PREDICTED, QUIET, blank, choose_scale, style, write_reason
from gbgnn.theory import Certificate, DepthBound

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_TERMS = {
    "training": "#d97706",
    "complexity": "#059669",
    "partition": "#7c3aed",
    "deviation": "#9ca3af",
    "total": INK,
}


def certificate_figure(
    certificate: Certificate, depth: DepthBound | None = None, title: str = "Certificate"
) -> Figure:
    """Draw promise and outcome, angle, gradient, and the bound against the rounds.

    Parameters
    ----------
    certificate
        What to draw.
    depth
        The bound of the test error by depth, where there is one; else that of the training error is drawn.
    title
        The heading.
    """
    figure = blank(title, width=9, height=6)
    (progress, angle), (gradient, bound) = figure.subplots(2, 2, sharex=True)
    rounds = certificate.rounds
    style(progress, "Fall of the training loss, all rounds so far")
    _plot(progress, list(accumulate(r.actual for r in rounds)), "actual", MEASURED)
    _plot(progress, list(accumulate(max(0.0, r.guaranteed) for r in rounds)), "guaranteed", PREDICTED)
    style(angle, "Weak learning condition")
    _plot(angle, [r.cosine for r in rounds], "cosine", MEASURED)
    _plot(
        angle, [math.nan if r.gamma is None else r.gamma for r in rounds], r"$\gamma$ of the step", PREDICTED
    )
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
    for axes in figure.axes:
        n_curves = len(axes.get_legend_handles_labels()[0])
        if n_curves:
            axes.legend(frameon=False, labelcolor=INK, fontsize=8.5, ncols=1 + n_curves // 5)
    for axes in (gradient, bound):
        axes.set_xlabel("round", color=QUIET)
        axes.xaxis.get_major_locator().set_params(integer=True)
    return figure


def _draw_training_bounds(axes: Axes, certificate: Certificate) -> None:
    style(axes, "Bound of the training error")
    corrected, printed = (_finite(certificate.training_bounds(form=f)) for f in ("corrected", "paper"))
    if all(map(math.isnan, corrected)):
        write_reason(axes, "a round took a step that the condition does not allow")
        return
    _plot(axes, corrected, "corrected", MEASURED)
    _plot(axes, printed, "as printed, does not hold", QUIET, dashed=True)
    axes.axhline(1, color=PREDICTED, lw=0.8, label="vacuous from here up")
    choose_scale(axes, [v for v in (*corrected, *printed) if not math.isnan(v)])


def _draw_test_bound(axes: Axes, depth: DepthBound) -> None:
    style(axes, f"Bound of the test error, margin {depth.delta:g}")
    n_rounds = len(depth.totals)
    terms = {
        "training": depth.training,
        "complexity": depth.complexity,
        "partition": (depth.partition,) * n_rounds,
        "deviation": (depth.deviation,) * n_rounds,
        "total": depth.totals,
    }
    for name, values in terms.items():
        _plot(axes, _finite(values), name, _TERMS[name])
    axes.axhline(1, color=PREDICTED, lw=0.8, ls=":", label="vacuous from here up")
    choose_scale(axes, [v for values in terms.values() for v in _finite(values) if not math.isnan(v)])


def _plot(axes: Axes, values: Sequence[float], label: str, color: str, *, dashed: bool = False) -> None:
    marker = "o" if len(values) <= 40 else ""
    line = (0, (5, 3)) if dashed else "-"
    axes.plot(
        range(1, len(values) + 1), values, color=color, lw=1.6, marker=marker, ms=3, ls=line, label=label
    )


def _finite(values: Sequence[float]) -> list[float]:
    return [value if math.isfinite(value) else math.nan for value in values]
