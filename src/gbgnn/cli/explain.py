"""``gbgnn explain``: why a model says what it says of a node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gbgnn
from gbgnn.cli import screen
from gbgnn.cli.files import name_class, open_saved
from gbgnn.cli.predict import find_rows, own_data
from gbgnn.errors import AbsentError, DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from gbgnn.explanations import Contributions, Explanation, NeighbourContributions
    from gbgnn.predictor import Predictor

    Floats = NDArray[np.float64]

_LEAST_SHARE = 0.01  # of the largest part; distances that brought less are counted together
_BAR = 20


def explain(
    saved_path: Path,
    nodes: list[str],
    dataset: str | None = None,
    node_table: Path | None = None,
    edges: list[Path] | None = None,
    data_dir: Path | None = None,
    normalize: bool | None = None,
    data_option: list[str] | None = None,
    top: int = 6,
    as_json: bool = False,
) -> None:
    """Show why a model says what it says of nodes: which distances, columns and neighbours spoke for it.

    Of classes, numbers are parts of the lead of the predicted class over the next, in scores, or in
    probabilities of an average of models: those above zero speak for the class, those below against it, and
    together they are the lead. Of numbers they are parts of the prediction. The same question has the same
    answer every time.
    """
    saved = open_saved(saved_path)
    if dataset is None and node_table is None:
        if "data" not in saved.config:
            raise DataError(f"{saved_path} is a bare model file; name its graph with --dataset.")
        graph = own_data(saved, data_dir).graph
    else:
        given = saved.source.override(
            dataset, data_dir, normalize=normalize, options=data_option, nodes=node_table, edges=edges
        )
        graph = given.load_graph()
    rows = find_rows(graph.node_ids, nodes, "explain names")
    model = gbgnn.load(saved.model_path).model_
    known = Known(model, graph, model.explain(rows, graph=graph), saved.class_names)
    described = [known.describe(i) for i in range(len(rows))]
    if hasattr(model, "members"):
        screen.note(f"an average of {len(model.members)} models, each taken apart")
        described = [own | {"members": known.contributions.describe(i)} for i, own in enumerate(described)]
    if as_json:
        screen.emit_json({"model": str(saved.model_path), "nodes": described})
        return
    for each in described:
        _show(each, top)


@dataclass(frozen=True, eq=False)
class Known:
    """What a model says of nodes, and what is known of why."""

    model: Predictor
    graph: gbgnn.Graph
    explanation: Explanation
    class_names: Mapping[str, str]

    @cached_property
    def contributions(self) -> Contributions:
        """What rounds and distances added."""
        return self.explanation.contributions

    @cached_property
    def at(self) -> int:
        """The place of the output that is explained where none is chosen: the first, or the median."""
        levels = self.model.task.levels
        return 0 if levels is None else int(abs(levels - 0.5).argmin())

    @cached_property
    def line(self) -> tuple[float, float] | None:
        """What is predicted at a score of zero, and what a score of one adds; None where that is no line."""
        if self.model.task.has_proba:
            return None
        import torch

        task, n_outputs = self.model.task, len(self.explanation.outputs)
        scores = torch.arange(3, dtype=torch.float64)[:, None].expand(-1, n_outputs)
        said = task.decode(task.decide(scores, self.model.link()).numpy())
        first, second, third = (float(each if said.ndim == 1 else each[0]) for each in said)
        is_line = abs(third - 2 * second + first) <= 1e-9 * (abs(first) + abs(third))
        return (first, second - first) if is_line else None

    @property
    def unit(self) -> float:
        """By what parts of scores are multiplied to be parts of numbers; 1 where they stay."""
        return 1.0 if self.line is None else self.line[1]

    def parts(self, i: int, values: Floats) -> list[float]:
        """Return the parts, given for all nodes, that are shown of the i-th."""
        from gbgnn.explanations.lead import find_lead

        if self.explanation.is_choice:
            found: list[float] = find_lead(self.contributions.scores[i : i + 1], values[i : i + 1])[
                0
            ].tolist()
            return found
        return (values[i, :, self.at] * self.unit).tolist()  # type: ignore[no-any-return]

    def describe(self, i: int) -> dict[str, Any]:
        """Return what is known of the i-th node, JSON-ready."""
        told = self.contributions
        row = int(told.nodes[i])
        found: dict[str, Any] = {"node": str(self.graph.node_ids[row]), **self._say(row)}
        found |= {
            "of": self._of(i),
            "total": sum(self.parts(i, told.by_round)),
            "by_round": dict(zip(told.parts, self.parts(i, told.by_round), strict=True)),
            "by_distance": None,
            "decided_by": None,
        }
        if told.scales is not None:
            found["by_distance"] = dict(zip(told.scales, self.parts(i, told.by_scale), strict=True))
            found["decided_by"] = told.decided_by[i]
        else:
            found["no_distances_because"] = told.why_no_scales
        return found | self._describe_columns(i) | self._describe_neighbours(i)

    def _say(self, row: int) -> dict[str, Any]:
        """Return what is predicted."""
        said = self.model.predict_all([row], graph=self.graph)
        if not self.model.task.has_classes:
            return {"prediction": said["predict"][0].tolist()}
        names = [name_class(str(each), self.class_names) for each in self.model.classes]
        proba = dict(zip(names, said["predict_proba"][0].tolist(), strict=True))
        return {
            "prediction": name_class(str(said["predict"][0]), self.class_names),
            "probabilities": dict(sorted(proba.items(), key=lambda pair: -pair[1])),
        }

    def _of(self, i: int) -> str:
        """Return in words what the numbers are parts of."""
        if self.line is not None:
            start = f"{self.line[0]:.6g}, what is said before any round"
            return f"{self.explanation.outputs[self.at]} beyond {start}"
        quantity = self.contributions.quantity
        if not self.explanation.is_choice:
            return f"the {quantity} of {self.explanation.outputs[self.at]}"
        classes = [name_class(str(each), self.class_names) for each in self.model.classes]
        scores = self.contributions.scores[i]
        if len(scores) == 1:
            first, second = (classes[1], classes[0]) if scores[0] > 0 else (classes[0], classes[1])
        else:
            first, second = (classes[place] for place in (-scores).argsort(kind="stable")[:2])
        return f"the lead of {first} over {second}" + ", in probability" * (quantity == "probability")

    def _describe_columns(self, i: int) -> dict[str, Any]:
        try:
            found = self.explanation.attributions
        except AbsentError as error:
            return {"columns": None, "no_columns_because": str(error)}
        base = self.parts(i, found.base[:, None])[0]
        own, seen = (
            _by_size(zip(names, self.parts(i, values), strict=True))
            for names, values in ((found.columns, found.values), (found.seen, found.seen_values))
        )
        return {"base": base, "columns": own, "columns_as_seen": seen}

    def _describe_neighbours(self, i: int) -> dict[str, Any]:
        import numpy as np

        try:
            found = self.explanation.neighbours[i]
        except AbsentError as error:
            return {"neighbours": None, "no_neighbours_because": str(error)}
        parts = self._parts_of(found)
        ids = self.graph.node_ids[found.neighbours]
        rows = [
            {"node": str(name), "steps": int(steps), "part": part}
            for name, steps, part in zip(ids, found.steps, parts, strict=True)
        ]
        return {
            "neighbours": sorted(rows, key=lambda row: -abs(row["part"])),
            "neighbours_base": self.parts(i, np.tile(found.base, (i + 1, 1, 1)))[0],
            "rounds_without_neighbours": list(found.rest_parts),
        }

    def _parts_of(self, found: NeighbourContributions) -> list[float]:
        if self.explanation.is_choice:
            return found.lead().tolist()  # type: ignore[no-any-return]
        return (found.values[:, self.at] * self.unit).tolist()  # type: ignore[no-any-return]


def _by_size(pairs: Any) -> dict[str, float]:
    return dict(sorted(((name, part) for name, part in pairs if part), key=lambda pair: -abs(pair[1])))


def _show(told: Mapping[str, Any], top: int) -> None:
    """Print what is known of a node."""
    proba = list(told.get("probabilities", {}).items())
    said = told["prediction"]
    if proba:
        chance = f" ({proba[0][1]:.3f})" if proba[0][0] == said else ""
        said = f"{said}{chance}, next {proba[1][0]} ({proba[1][1]:.3f})"
    elif isinstance(said, float):
        said = f"{said:.6g}"
    screen.out(f"node {told['node']}: {said}")
    screen.out(f"parts of {told['of']}: {told['total']:+.4g}")
    if "members" in told:
        _show_members(told["members"])
    if told["by_distance"] is not None:
        _show_distances(told["by_distance"], told["decided_by"])
    else:
        kind = "member" if "members" in told else "round"
        screen.out(f"by {kind}, as there are no distances: {told['no_distances_because']}")
        _show_parts(kind, list(told["by_round"].items()))
    if told["columns"] is not None:
        _show_columns(told, top)
    else:
        screen.out(f"no columns: {told['no_columns_because']}")
    if told["neighbours"]:
        _show_neighbours(told, top)
    elif told["neighbours"] is None:
        screen.out(f"no neighbours: {told['no_neighbours_because']}")
    screen.out()


def _show_members(told: Mapping[str, Any]) -> None:
    """Print what members of an average say of the likeliest class, or of the first number."""
    scores = told["scores"]
    at = scores.index(max(scores))
    rows = [(name, values[at]) for name, values in told["by_round"].items()]
    _show_parts(f"of the {told['quantity']} of {told['outputs'][at]}, {scores[at]:.3f}", rows)


def _show_distances(by_distance: Mapping[str, float], decided_by: str) -> None:
    largest = max(map(abs, by_distance.values()), default=0.0)
    shown = [
        (name, part)
        for name, part in by_distance.items()
        if abs(part) >= _LEAST_SHARE * largest or name == decided_by
    ]
    rest = [part for name, part in by_distance.items() if name not in dict(shown)]
    if rest:
        shown.append((f"{len(rest)} others", sum(rest)))
    _show_parts("from", shown, marked=decided_by)
    screen.out("* decided it")


def _show_columns(told: Mapping[str, Any], top: int) -> None:
    own, seen = told["columns"], told["columns_as_seen"]
    n_more = len(own) - top
    _show_parts("column", [*list(own.items())[:top], *_sum_rest(own, top), ("base", told["base"])])
    if set(seen) - set(own) and n_more > -top:
        _show_parts("column as learners see it", [*list(seen.items())[:top], *_sum_rest(seen, top)])


def _sum_rest(parts: Mapping[str, float], top: int) -> list[tuple[str, float]]:
    rest = list(parts.values())[top:]
    return [(screen.counted(len(rest), "other"), sum(rest))] if rest else []


def _show_neighbours(told: Mapping[str, Any], top: int) -> None:
    rows = told["neighbours"]
    shown = [
        (f"{row['node']} (itself)" if row["steps"] == 0 else row["node"], row["part"], str(row["steps"]))
        for row in rows[:top]
    ]
    rest = rows[top:]
    if rest:
        shown.append((screen.counted(len(rest), "other"), sum(row["part"] for row in rest), ""))
    shown.append(("base", told["neighbours_base"], ""))
    _show_parts("node", [row[:2] for row in shown], beside=("steps away", [row[2] for row in shown]))
    silent = told["rounds_without_neighbours"]
    if silent:
        screen.out(f"without {', '.join(silent)}, which does not say of whom it heard what it says")


def _show_parts(
    head: str,
    rows: Sequence[tuple[str, float]],
    *,
    marked: str | None = None,
    beside: tuple[str, Sequence[str]] | None = None,
) -> None:
    """Print parts with their names, and bars as long as they are large."""
    largest = max((abs(part) for _, part in rows), default=0.0) or 1.0
    is_plain = screen.console().options.ascii_only
    columns = [head, *([beside[0]] if beside else []), "part", ""]
    cells = []
    for i, (name, part) in enumerate(rows):
        bar = ("#" if is_plain else "█" if part > 0 else "░") * round(_BAR * abs(part) / largest)
        star = f"{name} *" if name == marked else name
        cells.append([star, *([beside[1][i]] if beside else []), f"{part:+.4f}", bar])
    screen.show_table(columns, cells, left=[head, ""])
