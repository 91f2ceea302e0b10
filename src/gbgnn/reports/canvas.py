"""What all figures share: a blank one, how its axes look, and how it is written.

matplotlib is imported when a figure is made, and only its objects are used: there is no current figure, no
window and no global setting.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gbgnn._files import atomic_path
from gbgnn.errors import MissingDependencyError, ParameterError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")

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
    if Path(path).suffix.lower() not in FORMATS:
        raise ParameterError(f"a figure's file must end in .png, .svg or .pdf; got {os.fspath(path)}.")
    blank("", width=1, height=1)


def blank(title: str, width: float, height: float) -> Figure:
    """Return an empty figure with a heading, sizes in inches."""
    try:
        from matplotlib.figure import Figure
        from matplotlib.layout_engine import ConstrainedLayoutEngine
    except ImportError as error:
        raise MissingDependencyError("drawing figures", "matplotlib", "plot") from error
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

    high = max(values)
    positive = [v for v in values if v > 0]
    if min(values) < -1e-12 * high or not positive:  # below zero by more than rounding, or zero throughout
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
