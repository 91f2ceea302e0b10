"""The figure of a smoothing profile."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gbgnn.reports.canvas import INK, MEASURED, PREDICTED, QUIET, blank, choose_scale, style, write_reason
from gbgnn.smoothing import SmoothingProfile

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
            marker = "o" if len(values) <= 40 else ""
            axes.plot(values, color=MEASURED, lw=1.8, marker=marker, ms=3.5, label="measured")
            choose_scale(axes, values)
    if profile.predicted is not None:
        axes = panels[0, 0]
        size = rf"$|\lambda_2|$ = {abs(profile.lambda_2 or 0):.4g}"
        kind = "bound" if profile.is_symmetric else "long-run pace"
        axes.plot(profile.predicted, color=PREDICTED, lw=1.4, ls=(0, (5, 3)), label=f"{kind}, {size}")
        axes.legend(frameon=False, labelcolor=INK, fontsize=9)
        choose_scale(axes, [*(profile.distance or ()), *profile.predicted])
    for axes in panels[1]:
        axes.set_xlabel("hops t", color=QUIET)
        axes.xaxis.get_major_locator().set_params(integer=True)
    return figure
