from __future__ import annotations

import numpy as np

from gbgnn import MLP, Callback, GBGNNClassifier, StopReason
from gbgnn.boosting import RoundReport
from gbgnn.testing import two_blocks


def test_fitted_attributes_are_there_after_every_round() -> None:
    graph, y = two_blocks(30, n_classes=3)
    seen = []

    class Look(Callback):
        def on_round(self, report: RoundReport) -> StopReason | None:
            seen.append((len(model.ensemble_), model.stop_reason_, model.predict([0]).shape))
            return None

    model = GBGNNClassifier(n_rounds=3, learner=MLP(epochs=20), callbacks=[Look()], random_state=0)
    model.fit(np.arange(15), y[:15], graph=graph)
    assert seen == [(t, StopReason.INTERRUPTED, (1,)) for t in (1, 2, 3)]
    assert model.stop_reason_ is StopReason.ROUNDS_EXHAUSTED
