"""Scores and predictions of a chunk's nodes, computed by the worker that has the chunk."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gbgnn._threads import one_thread
from gbgnn.boosting import Round, Voting
from gbgnn.dask.blocks import as_numbers
from gbgnn.model import FittedModel
from gbgnn.predictions import predict_columns
from gbgnn.propagation import DenseRows
from gbgnn.propagation.rows import computed_in


def advance(
    scores: NDArray[Any] | None,
    X: NDArray[Any],
    ids: NDArray[np.int64] | None,
    stored: torch.dtype,
    trained: Round,
    voting: Voting,
) -> NDArray[Any]:
    """Return the scores of a chunk's rows, or of some of them, after one more round."""
    rows = as_numbers(X if ids is None else X[ids], stored).to(computed_in(stored))
    with one_thread():
        added = voting.direction(trained.kept_head().evaluate(DenseRows(rows))) * trained.eta
    before = torch.zeros_like(added) if scores is None else torch.from_numpy(np.array(scores))
    return before.add_(added).numpy()


def predict_chunk(model: FittedModel, scores: NDArray[Any], ids: Any, start: int) -> Any:
    """Return a chunk's predictions as a frame; ``ids`` None are row numbers from ``start`` on."""
    import pandas as pd

    own = replace(model, kept_scores=torch.from_numpy(np.array(scores)), n_nodes=len(scores))
    names = np.arange(start, start + len(scores)) if ids is None else np.asarray(ids)
    return pd.DataFrame(predict_columns(own, ids=names))
