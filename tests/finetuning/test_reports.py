from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from gbgnn import MLP, FineTuner, GBGNNClassifier
from gbgnn.finetuning import EpochReport, FineTuningReport
from gbgnn.testing import two_blocks

BEFORE = {"train_loss": 0.9, "train_r2": 0.1, "val_loss": 1.0, "val_r2": 0.05}
AFTER = {"train_loss": 0.4, "train_r2": 0.5, "val_loss": 0.8, "val_r2": 0.25}


def test_text_tells_of_the_validation_nodes_by_the_metric() -> None:
    report = FineTuningReport(BEFORE, AFTER, kept="tuned", epochs=1, metric="r2")
    told = "val r2 0.0500 to 0.2500, val loss 1.0000 to 0.8000"
    assert str(report) == f"fine-tuned 1 epoch: {told}; the tuned model was kept"


def test_text_tells_of_the_labelled_nodes_where_there_are_no_others() -> None:
    before, after = ({key: told[key] for key in ("train_loss", "train_r2")} for told in (BEFORE, AFTER))
    report = FineTuningReport(before, after, kept="boosted", epochs=3, metric="r2")
    told = "train r2 0.1000 to 0.5000, train loss 0.9000 to 0.4000"
    assert str(report) == f"fine-tuned 3 epochs: {told}; the boosted model was kept"


@pytest.mark.parametrize("metric", ["accuracy", "f1_macro"])
def test_report_of_a_model_is_what_the_model_remembers(metric: str) -> None:
    graph, y = two_blocks(30)
    tuner = FineTuner(epochs=2, keep="tuned")
    model = GBGNNClassifier(learner=MLP(epochs=2), n_rounds=2, fine_tune=tuner, metric=metric, random_state=0)
    model.fit(np.arange(10), y[:10], graph=graph)
    report, done = FineTuningReport.from_model(model.model_), model.fine_tuning_
    assert (report.before, report.after, report.kept) == (done["before"], done["after"], "tuned")
    assert (report.epochs, report.metric) == (2, metric)
    assert f"train {metric} {done['before'][f'train_{metric}']:.4f} to" in str(report)


def test_reports_are_values() -> None:
    for report in (EpochReport(1, 2, {}), FineTuningReport(BEFORE, AFTER, "tuned", 1)):
        assert report.metric == "accuracy"
        with pytest.raises(FrozenInstanceError):
            report.metric = "r2"  # type: ignore[misc]
