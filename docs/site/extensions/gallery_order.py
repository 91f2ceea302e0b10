"""In which order the gallery shows its scripts."""

from __future__ import annotations

FIRST = (
    "few_labels",
    "table_with_links",
    "regression",
    "heterophily",
    "million_nodes",
    "one_node",
    "how_sure",
)


class ReadingOrder:
    """What people ask first comes first; then the pages for those who come from other libraries."""

    def __init__(self, folder: str) -> None:
        self.folder = folder

    def __call__(self, name: str) -> tuple[int, str]:
        """Return the key of a script's file name."""
        subject = name.removeprefix("plot_").removesuffix(".py")
        return (FIRST.index(subject) if subject in FIRST else len(FIRST), name)
