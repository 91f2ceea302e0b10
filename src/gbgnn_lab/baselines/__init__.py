"""Other graph neural networks, run by us on the same data and split."""

from gbgnn_lab.baselines.base import BaselineModel
from gbgnn_lab.baselines.catalog import (
    BASELINES,
    Baseline,
    BaselineResult,
    check_predicts_numbers,
    choose_model,
    find_baseline,
    fit_baseline,
    fit_nodes,
)
from gbgnn_lab.baselines.judging import judge_classes, judge_numbers, judge_parts

__all__ = [
    "BASELINES",
    "Baseline",
    "BaselineModel",
    "BaselineResult",
    "check_predicts_numbers",
    "choose_model",
    "find_baseline",
    "fit_baseline",
    "fit_nodes",
    "judge_classes",
    "judge_numbers",
    "judge_parts",
]
