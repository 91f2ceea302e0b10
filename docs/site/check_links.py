"""Follow every link of the built site, without a browser: to pages, to places in them, to pictures and files.

``python docs/site/check_links.py build/site`` names links that lead nowhere. Links to other sites are not
followed: nothing is fetched.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag, urlsplit

LINKS = {"a": ("href",), "link": ("href",), "script": ("src",), "img": ("src", "srcset")}


@dataclass
class Links:
    """The links of one page, and the places in it that others may lead to."""

    targets: list[str] = field(default_factory=list)
    places: set[str] = field(default_factory=set)


class Reader(HTMLParser):
    """Reads the links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.found = Links()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what an element leads to, and what it is called."""
        for name, value in attrs:
            if value is None:
                continue
            if name == "id" or (name == "name" and tag == "a"):
                self.found.places.add(value)
            elif name in LINKS.get(tag, ()):
                parts = value.split(",") if name == "srcset" else [value]
                self.found.targets += [part.strip().partition(" ")[0] for part in parts]


def read_links(page: Path) -> Links:
    """Return the links of a page."""
    reader = Reader()
    reader.feed(page.read_text())
    return reader.found


def find_dead_links(site: Path) -> Iterator[str]:
    """Yield the links of a site that lead nowhere, with the page that has them."""
    site = site.resolve()
    pages = {path: read_links(path) for path in sorted(site.rglob("*.html"))}
    for path, links in pages.items():
        for target in dict.fromkeys(links.targets):
            address, place = urldefrag(target)
            if urlsplit(address).scheme:
                continue
            to = (path.parent / unquote(urlsplit(address).path)).resolve() if address else path
            to = to / "index.html" if to.is_dir() else to
            if not to.is_file() or not to.is_relative_to(site):
                yield f"{path.relative_to(site)}: {target} is not there"
            elif place and to in pages and unquote(place) not in pages[to].places:
                yield f"{path.relative_to(site)}: {target} has no such place"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("site", type=Path)
    site = parser.parse_args().site
    dead = list(find_dead_links(site))
    print(*dead, f"{sum(1 for _ in site.rglob('*.html'))} pages, {len(dead)} dead links", sep="\n")
    sys.exit(bool(dead))


if __name__ == "__main__":
    main()
