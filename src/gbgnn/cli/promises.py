"""What ``gbgnn predict`` and ``evaluate`` promise on request: calibrated probabilities, sets, intervals.

The held-out nodes that this takes are those that ``fit --calibration-fraction`` has set aside, or else the
validation nodes of the run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from gbgnn.cli import screen
from gbgnn.cli.files import name_class
from gbgnn.errors import DataError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    import gbgnn
    from gbgnn.datasets import Dataset

BETWEEN = "|"
"""Stands between the classes of a set."""


@dataclass(frozen=True, eq=False)
class Promised:
    """A model, perhaps calibrated, and what makes its sets or intervals, where these were asked for."""

    model: Any
    maker: gbgnn.PredictionSets | gbgnn.PredictionIntervals | None

    @classmethod
    def of_file(cls, loaded: Any) -> Promised:
        """Return what a model file promises by itself: one of sets or intervals does."""
        from gbgnn import PredictionIntervals, PredictionSets

        is_maker = isinstance(loaded, (PredictionSets, PredictionIntervals))
        return cls(loaded.model, loaded) if is_maker else cls(loaded, None)

    @classmethod
    def make(cls, model: Any, data: Dataset, sets: float | None, calibrate: str | None) -> Promised:
        """Calibrate a loaded model on held-out nodes of the data it was fitted on."""
        from gbgnn import Calibrated, PredictionIntervals, PredictionSets

        if data.is_inductive:
            raise DataError(
                f"{data.name} is inductive: validation and test nodes come with graphs of their own, so that "
                "nothing can be promised of one by the other. Use RL, RH or TH."
            )
        nodes = data.calibration if len(data.calibration) else data.val
        if not len(nodes):
            raise DataError(
                f"{data.name} has no validation nodes, and --sets and --calibrate learn from held-out "
                "labels; fit with validation nodes, such as --split stratified."
            )
        model.model_ = model.model_.with_graph(data.graph)
        if calibrate is not None:
            # What is set aside for sets, temperatures need not be learned from.
            learned = data.val if sets is not None and len(data.val) else nodes
            model = Calibrated(model, method=calibrate).fit(learned, data.y[learned])
        if sets is None:
            return cls(model, None)
        kind = PredictionIntervals if data.is_regression else PredictionSets
        return cls(model, kind(model, confidence=sets).fit(nodes, data.y[nodes]))

    def columns(self, rows: NDArray[np.int64], class_names: Mapping[str, str]) -> dict[str, NDArray[Any]]:
        """Return the column ``set``, its classes with ``|`` between, or ``lower`` and ``upper``."""
        import numpy as np

        from gbgnn import PredictionSets

        if self.maker is None:
            return {}
        if not isinstance(self.maker, PredictionSets):
            lower, upper = self.maker.predict_interval(rows).T
            return {"lower": lower, "upper": upper}
        titles = np.array([name_class(label, class_names) for label in self.maker.classes_.tolist()])
        return {"set": np.array([BETWEEN.join(titles[own]) for own in self.maker.predict_set(rows)])}

    def measure(self, data: Dataset) -> dict[str, Any] | None:
        """Return how good sets or intervals are on the test nodes; None where there is nothing to measure."""
        if self.maker is None or not len(data.test):
            return None
        return asdict(self.maker.evaluate(data.test, data.y[data.test]))


def show_promise(found: dict[str, Any]) -> None:
    """Print how good sets or intervals are, in a sentence."""
    what = "set" if "sizes" in found else "interval"
    told = (
        f"{what}s of {100 * found['confidence']:g} %: {100 * found['coverage']:.1f} % of "
        f"{screen.counted(found['n_nodes'], 'test node')} have the truth in theirs; "
    )
    if what == "interval":
        screen.out(f"{told}width {found['mean_width']:.4g} on average, median {found['median_width']:.4g}")
        return
    single, right = found["singleton_share"], found["singleton_accuracy"]
    alone = f"{100 * single:.1f} % have one class only" + (
        f", {100 * right:.1f} % of them right" if single else ""
    )
    screen.out(f"{told}{found['mean_size']:.2f} classes on average; {alone}")
