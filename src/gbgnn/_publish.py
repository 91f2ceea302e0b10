"""Publish: the fitted attributes of an estimator, set while it is being fitted."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gbgnn.boosting import Boosted, Callback, RoundReport, RoundSelection, StartReport, StopReason
from gbgnn.graph import Graph


class Publish(Callback):
    """Sets the fitted attributes after every round, so that an interrupted fit keeps its work."""

    def __init__(
        self,
        model: Any,
        selection: RoundSelection,
        classes: NDArray[Any],
        graph: Graph,
        seed: int,
    ) -> None:
        self.model, self.selection = model, selection
        self.classes, self.graph, self.seed = classes, graph, seed

    def on_start(self, start: StartReport) -> None:
        """Remember which nodes train."""
        train = start.problem.train
        self.nodes, self.targets = train.rows.cpu().numpy(), train.targets.cpu().numpy()

    def on_round(self, report: RoundReport) -> None:
        """Show the rounds so far."""
        model, selection = self.model, self.selection
        model.classes_, model.graph_, model.seed_ = self.classes, self.graph, self.seed
        model.n_features_in_ = self.graph.n_features
        model.is_soft_, model.fine_tuning_ = False, None
        model.train_nodes_, model.train_targets_ = self.nodes, self.targets
        model.ensemble_, model.history_ = report.ensemble, report.history
        model.etas_ = np.array(report.ensemble.etas)
        model.best_round_ = selection.best_round
        model.scores_ = selection.best_scores_on_cpu()
        model.stop_reason_ = StopReason.INTERRUPTED

    def on_end(self, result: Boosted) -> None:
        """Say why boosting ended."""
        self.model.stop_reason_ = result.stop
