"""From the parameters of an estimator and the arguments of ``fit`` to checked parts and a checked Problem."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import train_test_split

from gbgnn._checks import check_choice, check_integer, check_number
from gbgnn._matrices import as_csr
from gbgnn._random import Seeds
from gbgnn.aggregation import Identity
from gbgnn.boosting import Boosted, BoostingRule, Member
from gbgnn.boosting.selection import check_selection
from gbgnn.errors import GraphError, ParameterError
from gbgnn.features import Neighbourhood
from gbgnn.finetuning import FineTuner, as_fine_tuner, check_fine_tuning
from gbgnn.graph import Graph
from gbgnn.labels import as_nodes, check_disjoint, check_length, check_range
from gbgnn.learners import Learner
from gbgnn.learners.base import LABELLED
from gbgnn.metrics import Metric
from gbgnn.model import FittedModel, check_graph
from gbgnn.problem import InputRecipe, LabelledNodes, Problem, encode_labels
from gbgnn.propagation import GivenMatrix, Mixable
from gbgnn.propagation.rows import NORMS
from gbgnn.registry import as_device, as_dtype, as_part
from gbgnn.storage import IN_MEMORY, Needs, Storage
from gbgnn.tables import warn_of_leak
from gbgnn.tasks import Classification, Task
from gbgnn.tasks.shares import match_shares

Labels = tuple[ArrayLike, ArrayLike]


@dataclass(frozen=True, eq=False)
class FitPlan:
    """A fit that is about to begin: what is learned from what, and by which parts, all checked.

    It is made of an estimator's parameters, which are not looked at again. ``storage`` says where the rows of
    all nodes are.
    """

    problem: Problem
    member: Member
    tuner: FineTuner | None
    inputs: InputRecipe
    graph: Graph
    settings: Mapping[str, Any]
    depends_on: Mapping[str, str]
    storage: Storage = IN_MEMORY

    @classmethod
    def build(
        cls,
        estimator: Any,
        task: Task,
        nodes: ArrayLike,
        y: ArrayLike,
        graph: Graph,
        *,
        seed: int,
        storage: Storage = IN_MEMORY,
        **labels: Any,
    ) -> FitPlan:
        """Check everything a user gave, before any work is done; see :func:`build_problem`."""
        problem = build_problem(estimator, task, nodes, y, graph, seed=seed, storage=storage, **labels)
        look_for_leak(graph, problem)
        member = resolve_member(estimator, problem, seed, estimator.keep_learners)
        tuner, has_validation = as_fine_tuner(estimator.fine_tune), problem.validation is not None
        if tuner is not None:
            check_fine_tuning(
                tuner, member.learner, keep_learners=member.keep_learners, has_validation=has_validation
            )
        return cls(
            problem=problem,
            member=member,
            tuner=tuner,
            # Copied: a matrix of the user's may be changed by them.
            inputs=copy.deepcopy(input_recipe(estimator, problem.task)).fitted_on(graph),
            graph=graph,
            settings={name: copy.copy(value) for name, value in estimator.get_params(deep=False).items()},
            depends_on=describe_dependencies(estimator, member, problem),
            storage=storage,
        )

    @cached_property
    def boosted_on(self) -> Problem:
        """The problem as it is boosted: of labelled and validation nodes alone where rows mix themselves."""
        problem = self.problem
        if not isinstance(problem.inputs.features, Mixable):
            return problem
        return problem.on_known_rows(problem.inputs.keep(problem.known_rows))

    def model(self, boosted: Boosted) -> FittedModel:
        """Return what boosting has trained, in the middle or at the end, as a model."""
        assert boosted.best is not None
        assert self.member.metric is not None
        task, rule = self.problem.task, self.member.rule
        return FittedModel(
            task=task,
            loss=rule.loss_for(task),
            voting=rule.voting_for(task),
            metric=self.member.metric,
            ensemble=boosted.ensemble,
            best_round=boosted.best.t,
            kept_scores=boosted.best.scores if self.boosted_on is self.problem else None,
            n_nodes=self.graph.n_nodes,
            history=boosted.history.copy(),  # the loop's own goes on
            stop_reason=boosted.stop,
            inputs=self.inputs,
            n_features_in=len(self.graph.column_names),
            train=self.problem.train,
            seed=self.member.seeds.root,
            settings=self.settings,
            depends_on=self.depends_on,
            graph=self.graph,
            validation_nodes=self._validation_nodes(),
            storage=self.storage,
        )

    def _validation_nodes(self) -> NDArray[np.int64]:
        held_out = self.problem.validation
        return np.empty(0, np.int64) if held_out is None else np.sort(np.asarray(held_out.rows.cpu()))


def build_problem(
    model: Any,
    task: Task,
    nodes: ArrayLike,
    y: ArrayLike,
    graph: Graph,
    *,
    validation: Labels | None = None,
    sample_weight: ArrayLike | None = None,
    seed: int,
    storage: Storage = IN_MEMORY,
) -> Problem:
    """Check everything a user gave, and return what ``model`` is trained on."""
    check_graph(graph, storage.graphs)
    ids = as_nodes(nodes)
    check_range(ids, graph.n_nodes)
    check_length(y, len(ids), "y")
    weights = check_weights(sample_weight, len(ids))
    task = task.fit(y, weights=weights)
    targets = task.encode(y)
    class_weight = getattr(model, "class_weight", None)  # which a regressor has none of
    by_validation = isinstance(class_weight, str) and class_weight == "validation"
    if class_weight is not None and not by_validation:
        task, weights = task.balance(class_weight, targets, weights)
    held_out = None
    if validation is not None:
        if model.validation_fraction is not None:
            raise ParameterError("give either validation= or validation_fraction, not both.")
        held_out = given_validation(validation, ids, task, graph)
    elif model.validation_fraction is not None:
        stays, leaves = split_validation(model.validation_fraction, task, targets, seed)
        held_out = ids[leaves], targets[leaves]
        ids, targets, weights = ids[stays], targets[stays], weights[stays]
    if by_validation and held_out is not None and isinstance(task, Classification):
        weights = weights * match_shares(targets, held_out[1], task.n_columns)[0]
    recipe = input_recipe(model, task)
    known = encode_labels(task, ids, targets) if recipe.hears_labels else None
    inputs = storage.build(recipe, graph, known, find_needs(model, task))
    return Problem(
        inputs=inputs,
        task=task,
        train=LabelledNodes.build(ids, targets, weights, inputs.device),
        validation=None if held_out is None else LabelledNodes.build(*held_out, device=inputs.device),
    )


def find_needs(model: Any, task: Task) -> Needs:
    """Return how many scores there are, and which part of a model sees more than rows of labelled nodes."""
    learner, aggregation = as_part("learner", model.learner), as_part("aggregation", model.aggregation)
    neighbourhood, all_rows = as_part("neighbourhood", model.neighbourhood), None
    if learner.uses != LABELLED or learner.hears_labels or learner.takes_gaps:
        all_rows = f"learner={learner!r}"
    elif not aggregation.is_polynomial:
        all_rows = f"aggregation={aggregation!r}"
    elif isinstance(neighbourhood, Neighbourhood):
        all_rows = f"neighbourhood={neighbourhood!r}"
    elif as_fine_tuner(model.fine_tune) is not None:
        all_rows = f"fine_tune={model.fine_tune!r}"
    return Needs(task.n_columns, all_rows)


def look_for_leak(graph: Graph, problem: Problem) -> None:
    """Warn when a column that has a name nearly gives the target of the training nodes."""
    features = graph.features if graph.table is None else graph.table
    if graph.is_named and graph.features_from != "edges" and not sp.issparse(features):
        rows, targets = (np.asarray(each.cpu()) for each in (problem.train.rows, problem.train.targets))
        warn_of_leak(features, rows, targets, graph.column_names)


def input_recipe(model: Any, task: Task) -> InputRecipe:
    """Return how ``model`` makes P and features of a graph, for a fitted task."""
    check_norm(model.feature_norm)
    recipe = copy.copy(as_part("propagation", model.propagation))
    inputs = InputRecipe(recipe, model.feature_norm, as_device(model.device), as_dtype(model.dtype))
    learner = as_part("learner", model.learner)
    neighbourhood = as_part("neighbourhood", model.neighbourhood)
    if not isinstance(neighbourhood, Neighbourhood):
        return replace(inputs, hears_labels=learner.hears_labels)
    check_neighbourhood(neighbourhood, model)
    n_targets = 1 if task.has_classes and task.n_columns == 2 else task.n_columns
    return replace(
        inputs,
        neighbourhood=neighbourhood,
        n_targets=n_targets,
        takes_gaps=learner.takes_gaps,
        hears_labels=True,
    )


def check_neighbourhood(neighbourhood: Neighbourhood, model: Any) -> None:
    """Raise where the columns of a neighbourhood do not go with a model's other settings."""
    neighbourhood.check()
    if model.feature_norm is not None:
        raise ParameterError(
            f"feature_norm={model.feature_norm!r} would scale what labels are as well; leave it None beside "
            "a neighbourhood."
        )
    aggregation = as_part("aggregation", model.aggregation)
    if neighbourhood.targets and not isinstance(aggregation, Identity):
        raise ParameterError(
            f"{aggregation!r} would bring a node its own label back through its neighbours; beside "
            'Neighbourhood(targets=...) use aggregation="identity", or Neighbourhood(targets=0).'
        )


def resolve_member(model: Any, problem: Problem, seed: int, keep_learners: bool) -> Member:
    """Return what is boosted for a model: its parts, which with its other settings suit a problem."""
    check_integer("GBGNNClassifier", "n_rounds", model.n_rounds, 1)
    aggregation, learner = as_part("aggregation", model.aggregation), as_part("learner", model.learner)
    rule = resolve_rule(model)
    aggregation.check()
    learner.check()
    aggregation.check_learner(learner)
    rule.check(problem.task)
    check_offsets(rule, learner)
    check_selection(model.select, problem.validation is not None)
    return Member(
        aggregation,
        learner,
        rule,
        n_rounds=model.n_rounds,
        seeds=Seeds(seed),
        select=model.select,
        metric=resolve_metric(model.metric, problem.task),
        keep_learners=keep_learners,
    )


def resolve_rule(model: Any) -> BoostingRule:
    """Return the boosting rule of a model: with its learning rate, and the loss as an object."""
    rule: BoostingRule = as_part("rule", model.rule)
    if rule is model.rule:
        rule = clone(rule)  # the fitted model keeps its loss
    changes = {} if model.learning_rate is None else {"learning_rate": model.learning_rate}
    named = getattr(rule, "loss", None)  # not every rule has one to choose
    if named is not None:
        named = model.loss_for_rule() or named
        changes |= {} if isinstance(named, str) and named == "auto" else {"loss": as_part("loss", named)}
    rule.set_params(**changes)
    return rule


def check_offsets(rule: BoostingRule, learner: Learner) -> None:
    """Raise where a rule hands the learner scores to build on, who cannot."""
    if rule.uses_offsets and not learner.takes_offsets:
        raise ParameterError(
            f"{type(learner).__name__} cannot build on the scores so far, which {rule!r} asks for; use "
            'target="gradient", or MLP() or BoostedTrees().'
        )


def resolve_metric(metric: Any, task: Task) -> Metric:
    """Return the metric by which rounds are chosen; ``"auto"`` is the task's own."""
    found: Metric = as_part("metric", task.default_metric if metric == "auto" else metric)
    return found


def check_norm(feature_norm: str | None) -> None:
    """Raise for a length that is not known."""
    if feature_norm is not None:
        check_choice("GBGNNClassifier", "feature_norm", feature_norm, NORMS)


def given_validation(
    validation: Labels, ids: NDArray[np.int64], task: Task, graph: Graph
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the validation nodes that the user gave, and their targets."""
    if not isinstance(validation, (tuple, list)) or len(validation) != 2:
        raise ParameterError(f"validation must be a pair (nodes, y); got {type(validation).__name__}.")
    rows = as_nodes(validation[0], "validation")
    if not len(rows):
        raise GraphError("validation is empty; leave it out, or give at least one node.")
    check_range(rows, graph.n_nodes, "validation")
    check_disjoint("the training nodes", ids, "validation", rows)
    check_length(validation[1], len(rows), "the y of validation")
    return rows, task.encode(validation[1], "the y of validation")


def split_validation(
    fraction: float, task: Task, targets: NDArray[Any], seed: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return positions that train and positions set aside, in the proportions of the task's strata.

    The only node of a class trains.
    """
    check_number("GBGNNClassifier", "validation_fraction", fraction, 0, 1, open_low=True, open_high=True)
    places, strata = np.arange(len(targets)), task.strata(targets)
    alone = places[:0]
    if strata is not None:
        _, kinds, counts = np.unique(strata, axis=0, return_inverse=True, return_counts=True)
        is_alone = counts[kinds.ravel()] == 1
        places, strata, alone = places[~is_alone], strata[~is_alone], places[is_alone]
    try:
        stays, leaves = train_test_split(
            places, test_size=fraction, stratify=strata, random_state=seed % 2**32
        )
    except ValueError as error:
        raise ParameterError(
            f"validation_fraction={fraction} of {len(targets)} labelled nodes cannot be split by class: "
            f"{error}"
        ) from error
    return np.sort(np.concatenate([stays, alone])), np.sort(leaves)


def check_weights(sample_weight: ArrayLike | None, n_nodes: int) -> NDArray[np.float64]:
    """Return the weight of each labelled node, or say what is wrong with it."""
    if sample_weight is None:
        return np.ones(n_nodes)
    try:
        weights = np.asarray(sample_weight, dtype=np.float64)
    except (ValueError, TypeError) as error:
        raise ParameterError(f"sample_weight must be a number for each labelled node: {error}.") from error
    if weights.shape != (n_nodes,):
        raise ParameterError(
            f"sample_weight has shape {weights.shape}, but there are {n_nodes} labelled nodes."
        )
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.sum() > 0:
        raise ParameterError("sample_weight must be finite, not negative, and not all zero.")
    return weights


def describe_dependencies(model: Any, member: Member, problem: Problem) -> dict[str, str]:
    """Return what every round depends on beside the graph and the seed, as text.

    Two fits on one graph that agree in it train the same rounds.
    """
    watched = problem.validation if member.learner.watches_validation else None
    return {
        **{name: describe_part(getattr(member, name)) for name in ("aggregation", "learner", "rule")},
        "propagation": describe_part(as_part("propagation", model.propagation)),
        "feature_norm": str(model.feature_norm),
        "dtype": str(as_dtype(model.dtype)),
        "task": f"{type(problem.task).__name__} {problem.task.record()}",
        "labelled nodes": _digest(problem.train.rows),
        "labels": _digest(problem.train.targets),
        "sample weights": _digest(problem.train.weights),
        "validation nodes": "not watched" if watched is None else _digest(watched.rows, watched.targets),
    }


def check_same(known: FittedModel, graph: Graph, depends_on: Mapping[str, str]) -> None:
    """Raise when a warm start would go on from rounds that were trained on or with something else."""
    if known.graph is None and known.stored_checksum is None:
        raise ParameterError(
            "warm_start goes on with trained rounds, but these are of a file of format 2, which does not say "
            "on what they were trained. Fit anew with warm_start=False."
        )
    changed = [name for name, now in depends_on.items() if known.depends_on.get(name) != now]
    if graph is not known.graph and graph.checksum != known.graph_checksum:
        changed.append("the graph")
    if changed:
        was, now = known.depends_on.get(changed[0]), depends_on.get(changed[0])
        shown = "" if was is None or now is None or len(was + now) > 600 else f": it was {was}, and is {now}"
        raise ParameterError(
            f"warm_start goes on with trained rounds, which depend on {changed[0]}, and that has changed"
            f"{shown}. Restore it, or fit anew with warm_start=False."
        )


def describe_part(part: Any) -> str:
    """Return a part's class and all its settings as text, the same after a model file was read.

    Arrays and matrices stand by their checksums.
    """
    if isinstance(part, GivenMatrix) and part.matrix is not None:
        part = GivenMatrix(matrix=as_csr(part.matrix, "GivenMatrix.matrix"))  # in whatever form it came
    if isinstance(part, BaseEstimator):
        settings = (f"{k}={describe_part(v)}" for k, v in sorted(part.get_params(deep=False).items()))
        return f"{type(part).__name__}({', '.join(settings)})"
    if sp.issparse(part):
        matrix = part.tocsr()
        return _digest(matrix.data, matrix.indices.astype(np.int64), matrix.indptr.astype(np.int64))
    if isinstance(part, (np.ndarray, torch.Tensor)):
        return _digest(part)
    if isinstance(part, (list, tuple)):
        return f"[{', '.join(map(describe_part, part))}]"  # files have lists only
    return repr(part.item() if isinstance(part, np.generic) else part)


def _digest(*arrays: Any) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(np.asarray(array.cpu() if isinstance(array, torch.Tensor) else array).tobytes())
    return digest.hexdigest()
