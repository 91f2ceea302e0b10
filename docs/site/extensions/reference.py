"""The directive ``documented``: a table of names, and below it what the docstring of each says."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective

TABLE = ".. autosummary::\n   :nosignatures:\n\n"
CLASS = ".. autoclass:: {name}\n   :members:\n   :inherited-members: Module, Exception\n"


class Documented(SphinxDirective):
    """Takes one full name of a class or a function per line."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the table and the entries."""
        names = [name.strip() for name in self.content if name.strip()]
        text = TABLE + "".join(f"   {name}\n" for name in names)
        for name in names:
            module, _, attribute = name.rpartition(".")
            is_class = inspect.isclass(getattr(import_module(module), attribute))
            entry = CLASS.format(name=name) if is_class else f".. autofunction:: {name}\n"
            text += "\n" + entry
        return self.parse_text_to_nodes(StringList(text.splitlines(), source=self.get_source_info()[0]))


def leave_out_foreign(app: Any, what: str, name: str, member: Any, skip: bool, options: Any) -> bool:
    """Leave out what classes inherit from other libraries: that is documented there."""
    home = getattr(inspect.unwrap(getattr(member, "fget", None) or member), "__module__", None) or "gbgnn"
    is_routing = name.startswith("set_") and name.endswith("_request")  # scikit-learn's, made for each class
    return skip or is_routing or home.partition(".")[0] in {"sklearn", "torch"}


def lead_back(app: Any, page: str, template: str, context: dict[str, Any], document: Any) -> None:
    """Let links from source code to the reference lead there, where a name is that of another module.

    Sphinx takes all names of a file for those of the first module that documents one of them.
    """
    if not page.startswith("_modules/"):
        return
    places = {each.node_id: each.docname for each in app.env.get_domain("py").objects.values()}

    def replace(link: re.Match[str]) -> str:
        address, name = link["address"], link["name"]
        if name in places:
            return link[0]
        here = [place for place, home in places.items() if home in address]
        parts = name.split(".")
        ends = (".".join(["", *parts[i:]]) for i in range(1, len(parts)))  # the longest first
        place = next((place for end in ends for place in here if place.endswith(end)), None)
        return link[0] if place is None else f'class="viewcode-back" href="{address}#{place}"'

    back = r'class="viewcode-back" href="(?P<address>[^"#]*)#(?P<name>[^"]*)"'
    context["body"] = re.sub(back, replace, context["body"])


def setup(app: Any) -> dict[str, bool]:
    """Add the directive."""
    app.setup_extension("sphinx.ext.autosummary")
    app.add_directive("documented", Documented)
    app.connect("autodoc-skip-member", leave_out_foreign)
    app.connect("html-page-context", lead_back)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
