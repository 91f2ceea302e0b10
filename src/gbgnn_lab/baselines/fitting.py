"""fit_baseline(): one call for every system in the catalog."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gbgnn._checks import check_integer
from gbgnn._devices import as_device
from gbgnn.datasets import Dataset
from gbgnn.errors import ParameterError, suggest
from gbgnn_lab.baselines.base import BaselineModel
from gbgnn_lab.baselines.catalog import find_baseline
from gbgnn_lab.baselines.data import TrainingData


@dataclass(frozen=True, eq=False)
class BaselineResult:
    """What became of a baseline.

    Parameters
    ----------
    name
        Its name in the catalog.
    seed
        The seed of all of its random numbers.
    predictions
        A class for every node, in row order.
    val_accuracy
        Accuracy on the validation nodes, or None where there are none.
    best_epoch
        The epoch that predicts, chosen by validation: of the last hop for AdaGCN, of the regression for DGI,
        0 where nothing is trained.
    seconds
        Time of the fit, mixing of features and prediction included.
    settings
        All of its hyper-parameters.
    n_parameters
        How many numbers it learned.
    """

    name: str
    seed: int
    predictions: NDArray[Any]
    val_accuracy: float | None
    best_epoch: int
    seconds: float
    settings: dict[str, Any]
    n_parameters: int


def fit_baseline(
    name: str,
    data: Dataset,
    *,
    seed: int,
    depth: int | None = None,
    device: Any = "cpu",
    **overrides: Any,
) -> BaselineResult:
    """Fit a baseline with its published hyper-parameters and predict all nodes.

    The model sees the graph and the labels of training and validation nodes, and no other label.

    Parameters
    ----------
    name
        One of :data:`~gbgnn_lab.baselines.BASELINES`.
    data
        Graph, labels and split. Features are taken as they are; those of the citation graphs come normalised.
    seed
        The same seed gives the same bytes on the same CPU.
    depth
        Hops, or layers of several hops; None takes the published number.
    device
        ``"auto"``, ``"cpu"``, ``"cuda"`` or a torch device.
    **overrides
        Other hyper-parameters by name: ``units=64``.

    Examples
    --------
    >>> from gbgnn import datasets
    >>> data = datasets.load("csbm", n_nodes=200)
    >>> result = fit_baseline("sgc", data, seed=0, depth=3)
    >>> bool((result.predictions[data.test] == data.y[data.test]).mean() > 0.8)
    True
    """
    check_integer("fit_baseline", "seed", seed, 0)
    model = choose_model(name, data.name, depth=depth, **overrides)
    place = as_device(device)
    given, classes = TrainingData.from_dataset(data, place)
    started = time.perf_counter()
    # torch's global random numbers are left as they were.
    with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
        torch.manual_seed(seed)
        outcome = model.fit(given)
    chosen = outcome.scores.argmax(dim=1).cpu().numpy()
    return BaselineResult(
        name=name,
        seed=seed,
        predictions=classes[chosen],
        val_accuracy=float(np.mean(classes[chosen][data.val] == data.y[data.val])) if len(data.val) else None,
        best_epoch=outcome.best_epoch,
        seconds=time.perf_counter() - started,
        settings=asdict(model),
        n_parameters=outcome.n_parameters,
    )


def choose_model(name: str, dataset: str, *, depth: int | None = None, **overrides: Any) -> BaselineModel:
    """Return the checked model that :func:`fit_baseline` would fit, published settings overridden.

    Examples
    --------
    >>> choose_model("gcn", "cora", depth=8, units=64).depth
    8
    """
    model = find_baseline(name).model_for(dataset)
    given = overrides if depth is None else overrides | {"depth": depth}
    known = [field.name for field in fields(model)]
    for setting in given:
        if setting not in known:
            raise ParameterError(
                f"the baseline {name} has no setting {setting!r}; it takes {', '.join(known)}."
                f"{suggest(setting, known)}"
            )
    model = replace(model, **given)
    model.check()
    return model
