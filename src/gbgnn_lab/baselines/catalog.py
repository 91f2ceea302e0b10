"""The systems that can be run beside gbgnn, with published hyper-parameters, and one call for all of them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from gbgnn._checks import check_integer
from gbgnn._devices import as_device
from gbgnn.datasets import Dataset
from gbgnn.errors import ParameterError, suggest
from gbgnn_lab.baselines.base import BaselineModel
from gbgnn_lab.baselines.convolutional import GCN, GCNII, TAGCN, GraphSAGE, JKNet
from gbgnn_lab.baselines.data import TrainingData
from gbgnn_lab.baselines.messages import DGI, GAT, MoNet
from gbgnn_lab.baselines.propagating import APPNP, MLP, SGC, AdaGCN, CorrectAndSmooth, LabelPropagation


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """An entry of the catalog.

    Parameters
    ----------
    name, title
        What to call it in code, and in a table.
    description
        What it does, in a few words.
    reference
        The paper.
    model
        The system with its published hyper-parameters.
    variants
        The same by data set, where the published ones differ.
    settings_from
        Where the hyper-parameters are from.
    cited
        Published accuracy in percent, by data set.
    cited_from
        Where that is from, and on which split when not the public one.
    """

    name: str
    title: str
    description: str
    reference: str
    model: BaselineModel
    variants: Mapping[str, BaselineModel] = field(default_factory=dict)
    settings_from: str
    cited: Mapping[str, float] = field(default_factory=dict)
    cited_from: str = ""

    def model_for(self, dataset: str) -> BaselineModel:
        """Return the system as it was published for a data set, or for citation graphs in general.

        Examples
        --------
        >>> BASELINES["gat"].model_for("pubmed").output_heads, BASELINES["gat"].model_for("mine").output_heads
        (8, 1)
        """
        return self.variants.get(dataset.lower(), self.model)


def _planetoid(cora: float, citeseer: float | None, pubmed: float) -> dict[str, float]:
    figures = {"cora": cora, "citeseer": citeseer, "pubmed": pubmed}
    return {name: value for name, value in figures.items() if value is not None}


_ENTRIES = (
    Baseline(
        name="gcn",
        title="GCN",
        description="graph convolutions, ReLU between them",
        reference="Kipf and Welling, Semi-supervised classification with graph convolutional networks, 2017",
        settings_from="the paper and github.com/tkipf/gcn, without its early stopping",
        model=GCN(),
        cited=_planetoid(81.5, 70.3, 79.0),
        cited_from="its paper",
    ),
    Baseline(
        name="sgc",
        title="SGC",
        description="logistic regression on features mixed beforehand",
        reference="Wu et al., Simplifying graph convolutional networks, ICML 2019",
        settings_from="github.com/Tiiiger/SGC, its penalty untuned; for citeseer and pubmed, DGL's example",
        model=SGC(),
        variants={
            "citeseer": SGC(weight_decay=5e-5, epochs=150),
            "pubmed": SGC(weight_decay=5e-5),
        },
        cited=_planetoid(81.0, 71.9, 78.9),
        cited_from="its paper",
    ),
    Baseline(
        name="tagcn",
        title="TAGCN",
        description="layers that are polynomials in the adjacency",
        reference="Du et al., Topology adaptive graph convolutional networks, arXiv:1710.10370, 2017",
        settings_from="DGL's example, without its self loops",
        model=TAGCN(),
        cited=_planetoid(83.3, 71.4, 81.1),
        cited_from="its paper, as DGL's example quotes it",
    ),
    Baseline(
        name="dgi",
        title="DGI",
        description="a representation learned without labels, then logistic regression",
        reference="Velickovic et al., Deep graph infomax, ICLR 2019",
        settings_from="github.com/PetarV-/DGI and the paper (256 units on pubmed)",
        model=DGI(),
        variants={"pubmed": DGI(units=256)},
        cited=_planetoid(82.3, 71.8, 76.8),
        cited_from="its paper",
    ),
    Baseline(
        name="graphsage",
        title="GraphSAGE",
        description="a node beside the mean of its neighbours, on the whole graph",
        reference="Hamilton et al., Inductive representation learning on large graphs, NeurIPS 2017",
        settings_from="DGL's example but for the aggregator; the paper has none for these graphs",
        model=GraphSAGE(),
        cited=_planetoid(83.3, 71.1, 78.3),
        cited_from="DGL's example, which averages a node with its neighbours",
    ),
    Baseline(
        name="appnp",
        title="APPNP",
        description="a perceptron, then personalised PageRank of its outputs",
        reference="Klicpera et al., Predict then propagate, ICLR 2019",
        settings_from="the paper and github.com/gasteigerjo/ppnp",
        model=APPNP(),
        cited=_planetoid(85.0, 75.7, 79.7),
        cited_from="its paper, as DGL's example quotes it: random splits of Cora-ML and other versions of "
        "the other graphs",
    ),
    Baseline(
        name="gat",
        title="GAT",
        description="every node weighs its neighbours by attention",
        reference="Velickovic et al., Graph attention networks, ICLR 2018",
        settings_from="the paper and github.com/PetarV-/GAT; at most 1,000 epochs",
        model=GAT(),
        variants={"pubmed": GAT(output_heads=8, learning_rate=0.01, weight_decay=1e-3)},
        cited=_planetoid(83.0, 72.5, 79.0),
        cited_from="its paper",
    ),
    Baseline(
        name="monet",
        title="MoNet",
        description="Gaussian mixtures over coordinates of the edges",
        reference="Monti et al., Geometric deep learning on graphs and manifolds using mixture models, 2017",
        settings_from="DGL's example (three coordinates on pubmed)",
        model=MoNet(),
        variants={"pubmed": MoNet(coordinates=3)},
        cited=_planetoid(81.7, None, 78.8),
        cited_from="its paper, as Velickovic et al. 2018 quote it",
    ),
    Baseline(
        name="jknet",
        title="JK-Net",
        description="a linear layer that reads the outputs of all graph convolutions",
        reference="Xu et al., Representation learning on graphs with jumping knowledge networks, ICML 2018",
        settings_from="DGL's example, which is for other splits; two layers, chosen here by validation",
        model=JKNet(),
    ),
    Baseline(
        name="gcnii",
        title="GCNII",
        description="graph convolutions that keep a share of the start and of the identity",
        reference="Chen et al., Simple and deep graph convolutional networks, ICML 2020",
        settings_from="github.com/chennnM/GCNII, semi.sh",
        model=GCNII(),
        variants={
            "citeseer": GCNII(depth=32, units=256, identity=0.6, dropout=0.7),
            "pubmed": GCNII(depth=16, units=256, identity=0.4, dropout=0.5, mixing_weight_decay=5e-4),
        },
        cited=_planetoid(85.5, 73.4, 80.2),
        cited_from="its paper",
    ),
    Baseline(
        name="adagcn",
        title="AdaGCN",
        description="AdaBoost over hops with one classifier, trained on from hop to hop",
        reference="Sun et al., AdaGCN: Adaboosting graph convolutional networks into deep models, ICLR 2021",
        settings_from="github.com/datake/AdaGCN, the commands of its README (Cora-ML's for cora)",
        model=AdaGCN(),
        variants={
            "citeseer": AdaGCN(depth=14, weight_decay=1e-3),
            "pubmed": AdaGCN(depth=19, dropout=0.2),
        },
        cited=_planetoid(85.97, 76.68, 79.95),
        cited_from="its README: random splits of Cora-ML and other versions of the other graphs",
    ),
    Baseline(
        name="correct_and_smooth",
        title="C&S",
        description="a perceptron, its errors and then its labels spread along the graph",
        reference="Huang et al., Combining label propagation and simple models out-performs graph neural "
        "networks, ICLR 2021",
        settings_from="github.com/CUAI/CorrectAndSmooth; both shares by validation; the perceptron as GCN",
        model=CorrectAndSmooth(),
    ),
    Baseline(
        name="label_propagation",
        title="LP",
        description="labels spread along the graph, no features",
        reference="Zhou et al., Learning with local and global consistency, NeurIPS 2003",
        settings_from="github.com/CUAI/CorrectAndSmooth for ogbn-arxiv, not tuned to these graphs",
        model=LabelPropagation(),
        cited=_planetoid(68.0, 45.3, 63.0),
        cited_from="Velickovic et al. 2018, for a close relative (Zhu et al. 2003)",
    ),
    Baseline(
        name="mlp",
        title="MLP",
        description="a perceptron on the features, no graph",
        reference="Kipf and Welling, Semi-supervised classification with graph convolutional networks, 2017",
        settings_from="as GCN",
        model=MLP(),
        cited=_planetoid(55.1, 46.5, 71.4),
        cited_from="Kipf and Welling 2017, table 3",
    ),
)

BASELINES: Mapping[str, Baseline] = MappingProxyType({entry.name: entry for entry in _ENTRIES})
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
