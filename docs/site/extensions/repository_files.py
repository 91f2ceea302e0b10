"""A page for every source file that some page links to, where a code forge would show the file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

SHOWN = {".py": "python", ".toml": "toml", ".jsonl": "text"}


class LinksToFiles(SphinxTransform):
    """Links to files of the repository lead to pages that show them, instead of downloads."""

    default_priority = 400

    def apply(self, **_: Any) -> None:
        """Replace the links of one page, and remember what they lead to."""
        for link in list(self.document.findall(addnodes.download_reference)):
            if link.get("reftype") != "myst":  # a real download, such as a notebook of the gallery
                continue
            path = Path(
                os.path.normpath((Path(self.env.srcdir) / self.env.docname).parent / link["reftarget"])
            )
            if path.suffix not in SHOWN or not path.is_relative_to(self.env.srcdir):
                continue
            page = page_of(path.relative_to(self.env.srcdir))
            address = self.app.builder.get_relative_uri(self.env.docname, page)
            self.env.metadata[self.env.docname].setdefault("files", set()).add(path)
            link.replace_self(nodes.reference("", "", *link.children, refuri=address, internal=True))


def page_of(path: Path) -> str:
    """Return the name of the page that shows a file."""
    return f"files/{path.as_posix()}"


def show_files(app: Any) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the pages."""
    linked = {path for facts in app.env.metadata.values() for path in facts.get("files", ())}
    for path in sorted(linked):
        name = path.relative_to(app.srcdir)
        body = app.builder.highlighter.highlight_block(path.read_text(), SHOWN[path.suffix], linenos=False)
        yield page_of(name), {"title": name.as_posix(), "body": f"<h1>{name}</h1>{body}"}, "page.html"


def setup(app: Any) -> dict[str, bool]:
    """Connect both to Sphinx."""
    app.add_transform(LinksToFiles)
    app.connect("html-collect-pages", show_files)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
