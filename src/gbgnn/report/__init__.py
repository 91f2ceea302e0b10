"""A page about runs: one HTML file, with everything in it, that a browser opens without a network.

``gbgnn report RUN`` writes it; here is how to make one of models at hand. Needs ``gbgnn[report]``.

Numbers are gathered in ``evidence``, drawn in ``figures``, put into words in ``sections`` and into HTML in
``page``: each reads only what comes before it.
"""

from gbgnn.report.page import compose, render, write_report
from gbgnn.report.subject import Part, Subject

__all__ = ["Part", "Subject", "compose", "render", "write_report"]
