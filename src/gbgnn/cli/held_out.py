"""What is certain of the nodes that are in no part of a split, by those that were held out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gbgnn.cli import screen
from gbgnn.cli.command import UsageError
from gbgnn.cli.files import name_class

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    import gbgnn
    from gbgnn.datasets import Dataset
    from gbgnn.theory import HoldoutBound

PARTS = ("test", "val")


def bound_others(
    model: gbgnn.GBGNNClassifier,
    data: Dataset,
    *,
    part: str = "test",
    n_choices: int | None = None,
    confidence: float = 0.95,
    graph: gbgnn.Graph | None = None,
) -> tuple[HoldoutBound | None, str | None]:
    """Return the bound of the error on nodes that are in no part of the split, or why there is none.

    ``graph`` is that of the data where the model was fitted on another one.
    """
    import gbgnn

    if part not in PARTS:
        raise UsageError(f"--held-out must be {' or '.join(PARTS)}; got {part!r}.")
    if data.is_regression:
        return None, "errors are counted of classes; numbers have none."
    if data.is_inductive:
        return None, "inductive data arrives part by part, and no part is a draw from all nodes."
    nodes = getattr(data, part)
    if not len(nodes):
        return None, f"the split has no {part} nodes, which would be held out."
    if n_choices is None and part == "val":
        raise UsageError(
            "--held-out val needs --choices: among how many models (rounds, epochs of fine-tuning, settings, "
            "multiplied) the validation nodes chose this one."
        )
    others = find_others(data, part)
    if not len(others):
        return None, (
            f"every labelled node is in the split, so there are no others than the {len(nodes):,} {part} "
            "nodes, whose error is known."
        )
    bound = gbgnn.holdout_bound(
        model,
        nodes,
        data.y[nodes],
        n_choices=n_choices,
        confidence=confidence,
        population=others,
        split=data.split,
        graph=graph,
    )
    return bound, None


def find_others(data: Dataset, part: str) -> NDArray[np.int64]:
    """Return the nodes that could have been held out and were not; beside ``"val"``, test nodes too."""
    import numpy as np

    used = [data.train, data.val] if part == "val" else [data.train, data.val, data.test]
    return np.setdiff1d(find_population(data), np.concatenate(used))


def find_population(data: Dataset) -> NDArray[np.int64]:
    """Return the nodes that a split could have had.

    A node without a label is one of them where labels are scarce, and all that there are have been used; not
    in data of the catalogue, or where more labels are known than the split has: there nobody would have drawn
    it.
    """
    import numpy as np

    from gbgnn.datasets.targets import is_labelled

    return np.flatnonzero(is_labelled(data.y) | (not is_fully_labelled(data)))


def is_fully_labelled(data: Dataset) -> bool:
    """Return whether all nodes that a split could have had are labelled, so that their classes are known."""
    import numpy as np

    from gbgnn.datasets.targets import is_labelled

    n_split = len(data.train) + len(data.val) + len(data.test)
    n_known = int(np.count_nonzero(is_labelled(data.y)))
    return bool(data.source) or n_known > n_split or n_known == len(data.y)


def describe_bound(bound: HoldoutBound | None, reason: str | None) -> dict[str, Any]:
    """Return the bound as it is recorded, or why there is none."""
    return {"others": None if bound is None else bound.to_dict(), "no_others_because": reason}


def show_bound(
    told: dict[str, Any], *, fully: bool = False, class_names: Mapping[str, str] | None = None
) -> None:
    """Print the statement of a record in plain words, what it was read off, and what it rests on.

    ``fully``: also of the nodes of each predicted class and level of confidence, and why there is none.
    """
    found = told["others"]
    if found is None:
        if fully:
            screen.out(f"no bound by held-out nodes: {told['no_others_because']}")
        return
    screen.out(found["sentence"])
    counted = f"{found['n_wrong']:,} of the {found['n_held_out']:,} held out are"
    screen.out(f"  {counted} ({100 * found['observed']:.1f} %)")
    for sentence in found["notes"]:
        screen.out(f"  {sentence}")
    if fully:
        together = f"all with {100 * found['confidence']:g} % confidence together"
        names = [name_class(each["label"], class_names or {}) for each in found["per_class"]]
        _show_groups("called", names, found["per_class"], together)
        levels = [f"{100 * each['level']:g} %" for each in found["per_level"]]
        _show_groups("sure by at least", levels, found["per_level"], together)
    screen.out()


def _show_groups(title: str, names: list[str], groups: list[dict[str, Any]], together: str) -> None:
    from gbgnn.theory.holdout import percent

    if not groups:
        return
    rows = [
        [
            name,
            f"{each['n_wrong']:,} of {each['n_held_out']:,}",
            f"{each['n_others']:,}",
            "-" if each["bound"] is None else percent(each["bound"], up=True),
        ]
        for name, each in zip(names, groups, strict=True)
    ]
    screen.show_table([title, "wrong of those held out", "others", "wrong at most"], rows, left=(title,))
    screen.out(f"  {together}")
