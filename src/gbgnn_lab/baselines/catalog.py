"""The systems that can be run beside gbgnn, their facts in catalog.toml, and one call for all of them."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gbgnn._checks import check_integer
from gbgnn.datasets import Dataset
from gbgnn.errors import ParameterError, suggest
from gbgnn.graph import Graph
from gbgnn.labels import NodeSplit
from gbgnn.registry import as_device, as_part
from gbgnn.tasks import Task
from gbgnn_lab.baselines.base import BaselineModel
from gbgnn_lab.baselines.convolutional import GCN, GCNII, TAGCN, GraphSAGE, JKNet
from gbgnn_lab.baselines.data import TrainingData
from gbgnn_lab.baselines.grand import GRAND
from gbgnn_lab.baselines.grand_plus import GRANDPlus
from gbgnn_lab.baselines.heterophilous import GPRGNN, H2GCN, LINKX
from gbgnn_lab.baselines.judging import judge_classes, judge_numbers
from gbgnn_lab.baselines.messages import DGI, GAT, MoNet
from gbgnn_lab.baselines.propagating import APPNP, MLP, SGC, AdaGCN, CorrectAndSmooth, LabelPropagation
from gbgnn_lab.baselines.residual import ResidualGAT, ResidualGCN, ResidualSAGE
from gbgnn_lab.baselines.trees import HistGradientBoosting, LightGBM, PropagatedResiduals


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
    "lightgbm": LightGBM,
    "lightgbm_1hop": LightGBM,
    "lightgbm_2hop": LightGBM,
    "histgb_1hop": HistGradientBoosting,
    "histgb_2hop": HistGradientBoosting,
    "lightgbm_residuals": PropagatedResiduals,
    "residual_gcn": ResidualGCN,
    "residual_sage": ResidualSAGE,
    "residual_gat": ResidualGAT,
    "grand": GRAND,
    "grand_plus": GRANDPlus,
    "gprgnn": GPRGNN,
    "h2gcn": H2GCN,
    "linkx": LINKX,
}


def _read_catalog() -> dict[str, Baseline]:
    told = tomllib.loads(Path(__file__).with_name("catalog.toml").read_text(encoding="utf-8"))
    catalog = {}
    for name, model in _MODELS.items():
        usual = model(**told[name].pop("settings", {}))
        variants = {
            dataset: replace(usual, **other) for dataset, other in told[name].pop("variants", {}).items()
        }
        catalog[name] = Baseline(name=name, model=usual, variants=variants, **told[name])
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
    predictions: NDArray[Any]  # a class, or a number, for every node, in row order
    proba: NDArray[Any] | None  # of classes, shape (N, K); None of numbers and where the model has none
    classes: NDArray[Any] | None  # in the order of the columns of probabilities; None of numbers
    val_accuracy: float | None  # None where there are no validation nodes, and of numbers
    best_epoch: int  # or the number of trees
    seconds: float  # time of the fit, mixing of features and prediction included
    settings: dict[str, Any]  # all of its hyper-parameters, as a search has chosen them
    n_parameters: int  # how many numbers it learned; of trees, their leaves

    def judge(self, nodes: NDArray[np.int64], y: NDArray[Any]) -> Mapping[str, float | None]:
        """Return how good the predictions of nodes are, by :mod:`gbgnn_lab.baselines.judging`."""
        if self.classes is None:
            return judge_numbers(y, self.predictions[nodes])
        proba = None if self.proba is None else self.proba[nodes]
        return judge_classes(y, self.predictions[nodes], proba, self.classes)


def check_predicts_numbers(name: str) -> None:
    """Raise unless a baseline is for regression too; the message names those that are."""
    if not find_baseline(name).model.predicts_numbers:
        able = ", ".join(each for each, entry in BASELINES.items() if entry.model.predicts_numbers)
        raise ParameterError(f"the baseline {name} is for classes; those that predict numbers: {able}.")


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
        Graph, labels or numbers, and split. Features are taken as they are; those of the citation graphs come
        normalised.
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
    settings = overrides if depth is None else overrides | {"depth": depth}
    fit = partial(fit_nodes, task=data.task or "classification", seed=seed, device=device, dataset=data.name)
    return fit(name, data.graph, data.y, data.split, **settings)


def fit_nodes(
    name: str,
    graph: Graph,
    y: NDArray[Any],
    split: NodeSplit,
    *,
    task: Task | str,
    seed: int,
    device: Any = "cpu",
    dataset: str = "",
    **overrides: Any,
) -> BaselineResult:
    """Fit a baseline to arrays, classes or numbers, and predict all nodes.

    Parameters
    ----------
    name
        One of :data:`~gbgnn_lab.baselines.BASELINES`.
    graph
        Edges and features of all nodes.
    y
        A class or a number for every node; only those of training and validation nodes are looked at.
    split
        Which nodes these are.
    task
        What y is: ``"classification"``, ``"regression"`` or an object of :class:`~gbgnn.tasks.Task`.
    seed, device, **overrides
        As in :func:`fit_baseline`.
    dataset
        The name by which published settings are looked up.

    Examples
    --------
    >>> from gbgnn.testing import two_blocks
    >>> graph, _ = two_blocks(200)
    >>> y, split = graph.features[:, 0] ** 2, NodeSplit(range(100), range(100, 150), range(150, 200))
    >>> result = fit_nodes("histgb_1hop", graph, y, split, task="regression", seed=0)
    >>> result.judge(split.test, y[split.test])["r2"] > 0.7
    True
    """
    check_integer("fit_baseline", "seed", seed, 0)
    model, asked = choose_model(name, dataset, **overrides), as_part("task", task)
    if not asked.has_classes:
        check_predicts_numbers(name)
    place = as_device(device)
    given = TrainingData.build(graph, y, split, asked, place)
    known = given.task
    started = time.perf_counter()
    # torch's global random numbers are left as they were.
    with torch.random.fork_rng(devices=[place] if place.type == "cuda" else []):
        torch.manual_seed(seed)
        outcome = model.fit(given)
    scores = outcome.scores
    predictions = known.decode(known.decide(scores, known.default_loss.link).cpu().numpy())
    is_judged = known.has_classes and len(split.val) > 0
    return BaselineResult(
        name=name,
        seed=seed,
        predictions=predictions,
        proba=scores.softmax(dim=1).cpu().numpy() if known.has_classes and model.has_proba else None,
        classes=known.decode(np.arange(known.n_columns)) if known.has_classes else None,
        val_accuracy=float(np.mean(predictions[split.val] == y[split.val])) if is_judged else None,
        best_epoch=outcome.best_epoch,
        seconds=time.perf_counter() - started,
        settings=asdict(model) | dict(outcome.chosen),
        n_parameters=outcome.n_parameters,
    )
