"""The systems that can be run beside gbgnn, their facts in catalog.toml, and one call for all of them."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gbgnn._checks import check_integer
from gbgnn.datasets import Dataset
from gbgnn.errors import ParameterError, suggest
from gbgnn.registry import as_device
from gbgnn_lab.baselines.base import BaselineModel
from gbgnn_lab.baselines.convolutional import GCN, GCNII, TAGCN, GraphSAGE, JKNet
from gbgnn_lab.baselines.data import TrainingData
from gbgnn_lab.baselines.messages import DGI, GAT, MoNet
from gbgnn_lab.baselines.propagating import APPNP, MLP, SGC, AdaGCN, CorrectAndSmooth, LabelPropagation


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """An entry of the catalog."""

    name: str  # what to call it in code
    title: str  # and in a table
    description: str  # what it does, in a few words
    reference: str  # the paper
    model: BaselineModel  # the system with its published hyper-parameters
    variants: Mapping[str, BaselineModel] = field(default_factory=dict)  # by data set, where those differ
    settings_from: str  # where the hyper-parameters are from
    cited: Mapping[str, float] = field(default_factory=dict)  # published accuracy in percent, by data set
    cited_from: str = ""  # where that is from, and on which split when not the public one

    def model_for(self, dataset: str) -> BaselineModel:
        """Return the system as it was published for a data set, or for citation graphs in general.

        Examples
        --------
        >>> BASELINES["gat"].model_for("pubmed").output_heads, BASELINES["gat"].model_for("mine").output_heads
        (8, 1)
        """
        return self.variants.get(dataset.lower(), self.model)


_MODELS: Mapping[str, type[BaselineModel]] = {
    "gcn": GCN,
    "sgc": SGC,
    "tagcn": TAGCN,
    "dgi": DGI,
    "graphsage": GraphSAGE,
    "appnp": APPNP,
    "gat": GAT,
    "monet": MoNet,
    "jknet": JKNet,
    "gcnii": GCNII,
    "adagcn": AdaGCN,
    "correct_and_smooth": CorrectAndSmooth,
    "label_propagation": LabelPropagation,
    "mlp": MLP,
}


def _read_catalog() -> dict[str, Baseline]:
    told = tomllib.loads(Path(__file__).with_name("catalog.toml").read_text(encoding="utf-8"))
    catalog = {}
    for name, model in _MODELS.items():
        variants = {dataset: model(**other) for dataset, other in told[name].pop("variants", {}).items()}
        catalog[name] = Baseline(name=name, model=model(), variants=variants, **told[name])
    return catalog


BASELINES: Mapping[str, Baseline] = MappingProxyType(_read_catalog())
"""Every baseline by its name."""


def find_baseline(name: str) -> Baseline:
    """Return the baseline of that name, or say which there are.

    Examples
    --------
    >>> find_baseline("gatt")
    Traceback (most recent call last):
    gbgnn.errors.ParameterError: unknown baseline 'gatt'. Did you mean 'gat'? Known: gcn, sgc, ...
    """
    if name not in BASELINES:
        known = ", ".join(BASELINES)
        raise ParameterError(f"unknown baseline {name!r}.{suggest(name, BASELINES)} Known: {known}.")
    return BASELINES[name]


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


@dataclass(frozen=True, eq=False)
class BaselineResult:
    """What became of a baseline.

    The epoch that predicts is chosen by validation: it is that of the last hop for AdaGCN, of the regression
    for DGI, 0 where nothing is trained.
    """

    name: str  # in the catalog
    seed: int  # of all of its random numbers
    predictions: NDArray[Any]  # a class for every node, in row order
    val_accuracy: float | None  # None where there are no validation nodes
    best_epoch: int
    seconds: float  # time of the fit, mixing of features and prediction included
    settings: dict[str, Any]  # all of its hyper-parameters
    n_parameters: int  # how many numbers it learned


def fit_baseline(
    name: str, data: Dataset, *, seed: int, depth: int | None = None, device: Any = "cpu", **overrides: Any
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
