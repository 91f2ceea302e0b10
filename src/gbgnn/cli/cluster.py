"""A fit over a Dask cluster, whose model comes back to this machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

import gbgnn
from gbgnn.cli import screen


@contextmanager
def spread(model: Any, scheduler: str | None, *, quiet: bool = False) -> Iterator[Any]:
    """Give a model with the same settings and its nodes on a cluster; the model gets what it is trained to.

    Also where training ends early, with the rounds so far. Without a scheduler it is the model itself.
    """
    if scheduler is None:
        yield model
        return
    from gbgnn.dask import DaskGBGNNClassifier, DaskGBGNNRegressor, open_client
    from gbgnn.dask.layout import find_address

    kind = DaskGBGNNRegressor if isinstance(model, gbgnn.GBGNNRegressor) else DaskGBGNNClassifier
    with open_client(scheduler) as client:
        remote = kind(**model.get_params(deep=False), client=client)
        remote.__dict__ |= {name: value for name, value in vars(model).items() if name == "model_"}
        if not quiet:
            workers = client.nthreads()
            where = f"{screen.counted(len(workers), 'worker')} of {find_address(client)}"
            screen.note(f"nodes on {where}, {screen.counted(sum(workers.values()), 'chunk')}")
        try:
            yield remote
        finally:
            if "model_" in vars(remote):
                model.model_ = remote.to_local().model_
        # As in other runs the file then predicts the nodes of the fit, whose graph it does not hold.
        scores = remote.model_.find_scores(np.arange(remote.n_nodes_))
        model.model_ = replace(model.model_, kept_scores=scores)
