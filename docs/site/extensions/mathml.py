"""Formulas as MathML, which browsers draw by themselves: no script, no fonts from elsewhere."""

from __future__ import annotations

import html
import re
from typing import Any

from docutils import nodes
from docutils.utils.math import MathError, pick_math_environment
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)


def to_mathml(node: nodes.Element, *, block: bool) -> str:
    """Return the MathML of a formula; what cannot be translated is a warning and stays as it was written."""
    tex = re.sub(
        r"\\dots\b", r"\\ldots", node.astext().strip()
    )  # the one usual word that docutils does not know
    if block and pick_math_environment(tex) == "align*":  # it has lines
        tex = rf"\begin{{aligned}}{tex}\end{{aligned}}"
    try:
        return str(tex2mathml(tex, as_block=block))
    except MathError as error:
        logger.warning("this formula cannot be drawn: %s: %s", tex, error, location=node)
        return f"<code>{html.escape(tex)}</code>"


def visit_inline(translator: Any, node: nodes.math) -> None:
    """Write a formula of a sentence."""
    translator.body.append(to_mathml(node, block=False))
    raise nodes.SkipNode


def visit_block(translator: Any, node: nodes.math_block) -> None:
    """Write a formula that has lines of its own; those too wide for the screen can be moved."""
    translator.body.append(f'<div class="formula">{to_mathml(node, block=True)}</div>')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Offer the renderer under the name ``mathml``."""
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
