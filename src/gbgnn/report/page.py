"""A page as one HTML file: its text, its figures, its style and its scripts, and nothing from elsewhere.

Text from outside (names of classes, ids of nodes, settings) is escaped where it enters: by jinja2 in the
HTML, by :func:`as_json_block` in the data of the scripts, by ``figures.plain`` in the figures. The page also
has a Content-Security-Policy that runs the scripts with the checksums stated there and no others, and loads
nothing.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Sequence
from datetime import datetime
from importlib.resources import files
from pathlib import Path
from typing import Any

from gbgnn._checks import check_integer
from gbgnn._files import to_json, write_text
from gbgnn._version import __version__
from gbgnn.errors import DataError, ParameterError, import_needed
from gbgnn.report.content import Figure, Page
from gbgnn.report.sections import N_NODES, describe_all
from gbgnn.report.subject import Subject

MARK = "<!-- a report of gbgnn -->"
"""In the first lines of every page, so that no other file is taken for one."""

_WHAT = "a report"
_UNSAFE = {
    ord("<"): "\\u003c",
    ord(">"): "\\u003e",
    ord("&"): "\\u0026",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


def write_report(
    path: str | os.PathLike[str],
    *subjects: Subject,
    title: str = "",
    n_nodes: int = N_NODES,
    force: bool = False,
) -> Path:
    """Write the page of one run or several; only a page of gbgnn's is replaced, unless ``force``.

    Parameters
    ----------
    path
        The file.
    subjects
        The runs.
    title
        What stands above; made of the names of the runs when empty.
    n_nodes
        How many nodes to list of each run.
    force
        Whether to replace whatever is there.
    """
    target = Path(path)
    if not force:
        check_replaceable(target)
    write_text(target, render(subjects, title=title, n_nodes=n_nodes))
    return target


def check_replaceable(path: Path) -> None:
    """Raise when something that is no page of gbgnn's is in the way."""
    if path.is_dir():
        raise DataError(f"{path} is a folder; name a file, such as {path / 'report.html'}.")
    if not path.exists():
        return
    with path.open("rb") as file:
        if MARK.encode() not in file.read(200):
            raise DataError(f"{path} exists and is no report of gbgnn's; choose another file.")


def render(subjects: Sequence[Subject], *, title: str = "", n_nodes: int = N_NODES) -> str:
    """Return the page as text; parameters as in :func:`write_report`."""
    if not subjects:
        raise ParameterError("a report needs a run to be about; got none.")
    check_integer("write_report", "n_nodes", n_nodes, 0)
    import_needed("jinja2", _WHAT, "report")
    import_needed("plotly", _WHAT, "report")
    made = f"made by gbgnn {__version__} on {datetime.now().astimezone().isoformat(' ', 'minutes')}"
    named = title or "gbgnn report: " + ", ".join(subject.name for subject in subjects)
    return compose(describe_all(subjects, named, n_nodes, made))


def compose(page: Page) -> str:
    """Return a page as HTML."""
    import jinja2
    from markupsafe import Markup
    from plotly.offline import get_plotlyjs

    store: dict[str, Any] = {"figures": {}, "nodes": {}}

    def keep_figure(key: str, figure: Figure) -> str:
        store["figures"][key] = {"spec": figure.spec, "alt": figure.alt}
        return key

    def keep_nodes(key: str, table: Any) -> str:
        store["nodes"][key] = table
        return key

    folder = files("gbgnn.report") / "templates"
    texts = {
        name: (folder / name).read_text(encoding="utf-8") for name in ("page.html", "page.css", "page.js")
    }
    scripts = [as_script(get_plotlyjs()), as_script(texts["page.js"])]
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.globals |= {"keep_figure": keep_figure, "keep_nodes": keep_nodes}
    # The body comes first: what it shows is what the store holds.
    body = environment.from_string(texts["page.html"]).render(
        page=page,
        mark=Markup(MARK),
        style=Markup(texts["page.css"]),
        policy=security_policy(scripts),
        store=lambda: Markup(as_json_block(store)),
        scripts=[Markup(script) for script in scripts],
    )
    return str(body)


def security_policy(scripts: Sequence[str]) -> str:
    """Return a policy that runs these scripts alone, and lets the page load nothing."""
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )


def as_script(text: str) -> str:
    """Return a script as it may stand in HTML: it ends at its end, and its lines are as hashed."""
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("</script", "<\\/script")


def as_json_block(value: Any) -> str:
    r"""Return JSON that cannot end the element it stands in.

    Examples
    --------
    >>> as_json_block({"name": "</script><b>"})
    '{"name": "\\u003c/script\\u003e\\u003cb\\u003e"}'
    """
    return to_json(value).translate(_UNSAFE)
