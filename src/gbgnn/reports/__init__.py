"""Results as figures."""

from gbgnn.reports.canvas import check_figure_path, write_figure
from gbgnn.reports.certificate import certificate_figure
from gbgnn.reports.smoothing import smoothing_figure

__all__ = ["certificate_figure", "check_figure_path", "smoothing_figure", "write_figure"]
