"""How the documentation site is built: ``make docs``, or ``make site`` without running the gallery.

The source of the site is the whole repository, so that a link between two of its files, say from a page of
the guide to a table of measured numbers, is the same on a code forge and on the site. Nothing is fetched from
elsewhere, neither when the site is built nor when it is read.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS / "site" / "extensions"), str(DOCS.parent / "src")]

import gbgnn  # noqa: E402

project = "gbgnn"
author = "The gbgnn authors"
copyright = "The gbgnn authors, MIT licence"
version = release = gbgnn.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "mathml",
    "reference",
    "repository_files",
]

root_doc = "docs/index"
include_patterns = [
    "docs/**",
    "benchmarks/README.md",
    "benchmarks/results/*.md",
    "examples/results/*.md",
    "results/**/table.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
]
exclude_patterns = ["build", "runs", ".*", "docs/site"]
templates_path = ["site/templates"]

myst_enable_extensions = ["dollarmath", "colon_fence", "deflist"]
myst_heading_anchors = 3
myst_dmath_double_inline = True

autosummary_generate = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True
add_module_names = False
toc_object_entries = False
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]  # some are properties, with entries of their own

sphinx_gallery_conf = {
    "examples_dirs": "examples/gallery",
    "gallery_dirs": "docs/gallery",
    "within_subsection_order": "gallery_order.ReadingOrder",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "min_reported_time": 10**6,
    "write_computation_times": False,
    "copyfile_regex": r".*\.rst",
    "doc_module": ("gbgnn",),
    "image_srcset": ["2x"],
}

html_theme = "furo"
html_title = "gbgnn"
html_static_path = ["site/static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_show_sphinx = False
html_additional_pages = {"index": "to-the-first-page.html"}
html_theme_options = {"navigation_with_keys": True}
pygments_style = "default"
pygments_dark_style = "github-dark"
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

# Pages whose links below each other are clear on a code forge, and the pages that the site puts under them.
UNDER = {
    "docs/decisions/README": ["0*"],
    "docs/benchmarks": [
        "../benchmarks/README",
        "../benchmarks/results/*",
        "../results/*/table",
        "../results/compare/*/table",
        "../examples/results/*",
    ],
}


def add_pages_under(app: Any, docname: str, source: list[str]) -> None:
    """Append a hidden table of contents to a page."""
    if docname in UNDER:
        source[0] += "\n\n```{toctree}\n:hidden:\n:glob:\n\n" + "\n".join(UNDER[docname]) + "\n```\n"


def setup(app: Any) -> None:
    """Connect it."""
    app.connect("source-read", add_pages_under)
