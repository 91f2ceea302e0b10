"""Names of parts, devices and precisions: what every string that stands for an object stands for."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Any

import torch

from gbgnn import aggregation, boosting, features, learners, losses, metrics, propagation, tasks
from gbgnn._checks import check_choice
from gbgnn.boosting import voting
from gbgnn.errors import ParameterError, suggest

FAMILIES: dict[str, dict[str, type[Any]]] = {
    "aggregation": {
        "adjacency": aggregation.Adjacency,
        "injection": aggregation.InputInjection,
        "lazy": aggregation.Lazy,
        "kta": aggregation.KernelTargetAlignment,
        "beside": aggregation.Beside,
        "learned": aggregation.LearnedHops,
        "linear": aggregation.Linear,
        "nonlinear": aggregation.NonLinear,
        "identity": aggregation.Identity,
    },
    "learner": {
        "mlp": learners.MLP,
        "constrained": learners.ConstrainedMLP,
        "wide": learners.WideReLU,
        "sklearn": learners.SklearnLearner,
        "trees": learners.BoostedTrees,
        "graph_network": learners.GraphNetwork,
        "convolutions": learners.ConvolutionNetwork,
        "residuals": learners.PropagatedResiduals,
        "consistent": learners.ConsistentNetwork,
        "cross_fitted": learners.CrossFitted,
        "stages": learners.Stages,
        "turns": learners.Turns,
        "best_of": learners.BestOf,
    },
    "rule": {"gradient": boosting.FunctionalGradient, "samme": boosting.Samme, "samme_r": boosting.SammeR},
    "propagation": {
        "augmented": propagation.AugmentedAdjacency,
        "normalized": propagation.NormalizedAdjacency,
        "random_walk": propagation.RandomWalk,
        "laplacian": propagation.NormalizedLaplacian,
        "given": propagation.GivenMatrix,
    },
    "neighbourhood": {"none": features.OwnColumns, "wide": features.Neighbourhood},
    "task": {
        "classification": tasks.Classification,
        "regression": tasks.Regression,
        "multilabel": tasks.MultiLabel,
    },
    "loss": losses.LOSSES,
    "metric": metrics.METRICS,
}
"""Family, then name, then class. Other packages add theirs as entry points ``gbgnn.<family>``. The names of
scikit-learn's scorers are metrics too."""

INNER_PARTS = {
    "loss": "loss",
    **dict.fromkeys(("first", "then", "odd", "even", "one", "other", "inner"), "learner"),
}
"""The families of settings that are parts themselves: a rule has a loss, some learners have others inside."""

PARAMETERS = ("aggregation", "learner", "rule", "propagation", "neighbourhood")
"""The families whose parts are parameters of an estimator."""

FITTED: dict[str, dict[str, type[Any]]] = {
    "hop": {
        "polynomial": aggregation.PolynomialHop,
        "mixing": aggregation.MixingHop,
        "beside": aggregation.BesideHop,
        "learned": aggregation.LearnedHop,
    },
    "head": {
        "mlp": learners.MLPHead,
        "sklearn": learners.SklearnHead,
        "trees": learners.TreesHead,
        "graph_network": learners.GraphNetworkHead,
        "hops": learners.HopHead,
        "residuals": learners.ResidualsHead,
        "cross_fitted": learners.CrossFittedHead,
    },
    "voting": {
        "outputs": voting.OutputVoting,
        "classes": voting.ClassVoting,
        "labels": voting.LabelVoting,
        "log_proba": voting.LogProbaVoting,
    },
}
"""What fitting makes of them, by the names that model files use."""

_BASES: dict[str, type[Any]] = {
    "aggregation": aggregation.Aggregation,
    "learner": learners.Learner,
    "rule": boosting.BoostingRule,
    "propagation": propagation.Propagation,
    "neighbourhood": features.NodeColumns,
    "task": tasks.Task,
    "loss": losses.Loss,
}


def part_class(family: str, name: str) -> type[Any]:
    """Return the class that ``name`` stands for."""
    known = (FAMILIES | FITTED)[family]
    if name in known:
        return known[name]
    plugins = _plugins(family)
    if name in plugins:
        loaded: type[Any] = plugins[name].load()
        return loaded
    names = part_names(family)
    raise ParameterError(f"unknown {family} {name!r}.{suggest(name, names)} Known: {', '.join(names)}.")


def part_names(family: str) -> list[str]:
    """Return the names of a family, those of other packages last."""
    return list(dict.fromkeys([*(FAMILIES | FITTED)[family], *_plugins(family)]))


def part_name(family: str, part: Any) -> str:
    """Return the name of a part's class, or say that it has none."""
    for name, known in (FAMILIES | FITTED)[family].items():
        if type(part) is known:
            return name
    for name, point in _plugins(family).items():
        if type(part) is point.load():
            return name
    raise ParameterError(
        f"{type(part).__name__} has no name; register it as an entry point of gbgnn.{family}."
    )


def as_part(family: str, value: Any) -> Any:
    """Turn a name or an object into a part; a scikit-learn estimator is a learner, a matrix a propagation."""
    if family == "metric":
        # Looking for plug-ins reads a file of every installed package.
        is_plugin = isinstance(value, str) and value not in metrics.METRICS and value in _plugins(family)
        return part_class(family, value)() if is_plugin else metrics.as_metric(value)
    if isinstance(value, str):
        return part_class(family, value)()
    if isinstance(value, _BASES[family]):
        return value
    if family == "learner" and hasattr(value, "fit") and not isinstance(value, type):
        return learners.SklearnLearner(estimator=value)
    if family == "propagation" and getattr(value, "ndim", 0) == 2:
        return propagation.GivenMatrix(matrix=value)
    names = ", ".join(FAMILIES[family])
    got = f"the class {value.__name__}" if isinstance(value, type) else repr(value)
    hint = f" Write {value.__name__}()." if isinstance(value, type) else ""
    raise ParameterError(
        f"{family} must be a name ({names}) or an object of {_BASES[family].__name__}; got {got}.{hint}"
    )


def as_device(device: Any) -> torch.device:
    """Return the torch device; ``"auto"`` is the GPU where there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        result = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise ParameterError(f'device must be "auto", "cpu" or "cuda"; got {device!r}.') from error
    if result.type == "cuda" and not torch.cuda.is_available():
        raise ParameterError(f'device={device!r}, but torch finds no CUDA device; use "cpu" or "auto".')
    return result


def as_dtype(dtype: Any) -> torch.dtype:
    """Return the torch precision for ``"float32"``, ``"float64"`` or ``"bfloat16"``."""
    if isinstance(dtype, torch.dtype):
        dtype = str(dtype).removeprefix("torch.")
    check_choice("GBGNNClassifier", "dtype", dtype, ("float32", "float64", "bfloat16"))
    found: torch.dtype = getattr(torch, dtype)
    return found


def _plugins(family: str) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=f"gbgnn.{family}")}
