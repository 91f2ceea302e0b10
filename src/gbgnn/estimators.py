"""GBGNNClassifier: the method with scikit-learn's manners, on node ids."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_is_fitted

from gbgnn._checks import check_integer
from gbgnn._random import root_seed
from gbgnn._threads import one_thread
from gbgnn.boosting import Boosted, Ensemble, StopReason, boost_many
from gbgnn.callbacks import Callback, EarlyStopping, LogProgress, RoundReport, StartReport, announce
from gbgnn.errors import ParameterError, WeakLearnerError
from gbgnn.finetuning import FineTuner, FineTuningReport, as_fine_tuner, fine_tune_model
from gbgnn.fitting import FitPlan, Labels, check_same
from gbgnn.graph import Graph
from gbgnn.model import FittedModel
from gbgnn.persistence import save
from gbgnn.registry import PARAMETERS, as_part
from gbgnn.tasks import Task


@dataclass(kw_only=True, eq=False, repr=False)
class GBGNNClassifier(ClassifierMixin, BaseEstimator):
    """A deep multi-scale graph neural network, trained by boosting.

    Each round mixes the node representations along the graph, fits a small learner on the labelled
    nodes and adds it to the scores of all nodes. Rows are *node ids*: ``fit(nodes, y, graph=graph)``
    sees the features and edges of all nodes but the labels of ``nodes`` alone.

    Parameters
    ----------
    aggregation
        How representations are mixed: ``"adjacency"``, ``"injection"``, ``"lazy"``, ``"kta"``, ``"linear"``,
        ``"nonlinear"``, ``"identity"`` or an object such as ``KernelTargetAlignment(degree=2)``.
    learner
        What is fitted each round: ``"mlp"``, ``"constrained"`` (hard norms, for bounds), ``"wide"``, an
        object such as ``MLP(units=32)``, or any scikit-learn classifier or regressor.
    rule
        How rounds are weighted and added: ``"gradient"`` (functional gradient boosting, with a
        certificate every round), ``"samme"``, ``"samme_r"`` or an object such as ``Samme(error_floor=1e-6)``.
    task
        What y is: ``"classification"``, one class per node; ``"multilabel"``, a 0/1 matrix with a column per
        label; or an object of :class:`~gbgnn.tasks.Task`.
    propagation
        The matrix P: ``"augmented"``, ``"normalized"``, ``"random_walk"``, ``"laplacian"``, ``"given"`` (the
        adjacency as it is) or an N x N matrix.
    feature_norm
        ``"l1"`` or ``"l2"`` brings every feature row to length one first, as is usual for counts of words;
        None takes the features as they are.
    n_rounds
        The most rounds to train; the depth of the network.
    learning_rate
        Shrinkage of every step; None leaves the rule its own.
    metric
        By what the round is chosen, rounds are stopped early and fine-tuning is judged, on validation nodes:
        a name of scikit-learn's scorers (``"f1_macro"``, ``"roc_auc"``, ``"neg_log_loss"``, ...), a scorer or
        a :class:`~gbgnn.metrics.Metric`; ``"auto"`` is accuracy.
    select
        Which round predicts: ``"last"``, ``"validation"`` (the best by ``metric``), ``"gradient"`` (smallest
        gradient norm), or ``"auto"``: validation where there are validation nodes, else last.
    fine_tune
        None; True or a :class:`~gbgnn.FineTuner`: after boosting, the rounds that predict are tuned end to
        end, and the better model by validation is kept.
    class_weight
        None, ``"balanced"`` or a dictionary from class to weight.
    validation_fraction
        Share of the labelled nodes to set aside, stratified, for choosing the round; None sets none
        aside. Not with ``validation=``.
    n_iter_no_change
        Stop after so many rounds without a better validation result; None never stops early.
    keep_learners
        Whether to keep the fitted learners, which staged and inductive prediction need. Without,
        memory is flat in ``n_rounds``.
    device
        ``"auto"``, ``"cpu"``, ``"cuda"`` or a torch device.
    dtype
        ``"float32"`` or ``"float64"``.
    callbacks
        Objects of :class:`~gbgnn.boosting.Callback`.
    warm_start
        Go on from the rounds already trained: with the same data, fitting 10 rounds and then 30
        equals fitting 30. Data or settings that the trained rounds depend on must be the same.
    random_state
        Seed of all randomness: the same seed on the same machine gives the same bytes.
    verbose
        0 is silent; k logs every k-th round, and every k-th epoch of fine-tuning.

    Attributes
    ----------
    model_
        The fitted model, a :class:`~gbgnn.model.FittedModel`: a value that later changes of the parameters do
        not touch. All attributes below are its fields.
    classes_
        The class labels.
    n_features_in_
        Number of feature columns of the graph.
    ensemble_, etas_
        All trained rounds and their steps; ``ensemble_[:t]`` is the model stopped at t.
    history_
        One row of measurements per round, see :class:`~gbgnn.boosting.History`.
    certificate_
        What every round promised of the training loss and kept, a :class:`~gbgnn.theory.Certificate`.
    train_nodes_, train_targets_
        The labelled nodes that trained, and the indices of their classes.
    best_round_
        The round that predicts.
    stop_reason_
        Why boosting ended.
    fine_tuning_
        Loss and accuracy before and after fine-tuning, which model was kept, a row per epoch; None without.
    is_soft_
        Whether learners that chose one class vote by softmax since they were fine-tuned.
    scores_
        Scores of all nodes at ``best_round_``, shape (N, K), or (N, 1) under the sigmoid loss.
    graph_
        The graph of the fit; None in a model loaded from a file.
    metric_, loss_, task_, voting_
        By what rounds were chosen and progress was measured; what y is; how outputs become scores.
    seed_
        The seed that was used, also when ``random_state`` was None.

    Examples
    --------
    >>> from gbgnn import GBGNNClassifier, datasets
    >>> data = datasets.load("karate")
    >>> model = GBGNNClassifier(n_rounds=10, random_state=0)
    >>> model = model.fit(data.train, data.y[data.train], graph=data.graph)
    >>> bool(model.score(data.test, data.y[data.test]) > 0.9)
    True
    """

    aggregation: Any = "adjacency"
    learner: Any = "mlp"
    rule: Any = "gradient"
    task: Any = "classification"
    propagation: Any = "augmented"
    feature_norm: str | None = None
    n_rounds: int = 20
    learning_rate: float | None = None
    metric: Any = "auto"
    select: str = "auto"
    fine_tune: Any = None
    class_weight: Any = None
    validation_fraction: float | None = None
    n_iter_no_change: int | None = None
    keep_learners: bool = True
    device: Any = "auto"
    dtype: Any = "float32"
    callbacks: Sequence[Callback] = ()
    warm_start: bool = False
    random_state: Any = None
    verbose: int = 0

    @one_thread()
    def fit(
        self,
        nodes: ArrayLike,
        y: ArrayLike,
        *,
        graph: Graph,
        validation: Labels | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train on the labels of ``nodes``.

        Parameters
        ----------
        nodes
            Ids (row numbers) of the labelled nodes, without repeats.
        y
            Their classes, at least two.
        graph
            Edges and features of all nodes.
        validation
            (nodes, y) for choosing the round and stopping early; disjoint from ``nodes``.
        sample_weight
            Weight of each labelled node, not negative; uniform when None.
        """
        check_integer("GBGNNClassifier", "verbose", self.verbose, 0)
        task, seed = self._task(), self._root_seed()
        plan = FitPlan.build(
            self, task, nodes, y, graph, validation=validation, sample_weight=sample_weight, seed=seed
        )
        known, callbacks = self._known_rounds(plan), self._callbacks()

        def on_round(so_far: Boosted) -> StopReason | None:
            self.model_ = plan.model(so_far)  # so that an interrupted fit keeps its rounds
            return announce(callbacks, "on_round", RoundReport(self.model_, self.n_rounds, so_far.scores))

        announce(callbacks, "on_start", StartReport(plan.problem, self.n_rounds, len(known)))
        member = replace(plan.member, announce=on_round, known=known)
        (boosted,) = boost_many(plan.problem, [member])
        if not len(boosted.ensemble):
            raise WeakLearnerError(
                f"round 1: {boosted.stop.message}, so there is nothing to predict with ({member.learner!r}). "
                "Give the learner more capacity or epochs, check the features, or try another rule."
            )
        self.model_ = plan.model(boosted)
        announce(callbacks, "on_end", self.model_)
        if plan.tuner is not None and boosted.stop is not StopReason.PRUNED:
            on_epoch = partial(announce, callbacks, "on_epoch")
            self.model_ = fine_tune_model(self.model_, plan.problem, plan.tuner, on_epoch)
            announce(callbacks, "on_fine_tuned", FineTuningReport.from_model(self.model_))
        return self

    def __getattr__(self, name: str) -> Any:
        """Show what the fitted model has: ``classes_`` is ``model_.classes``."""
        model = vars(self).get("model_")
        if name not in _shown():
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if model is None:  # an AttributeError too, so that hasattr says no
            raise NotFittedError(f"{name} is known after a fit; call fit first.")
        return getattr(model, name.removesuffix("_"))

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(_shown() if "model_" in vars(self) else ())})

    def predict(self, nodes: ArrayLike, *, graph: Graph | None = None) -> NDArray[Any]:
        """Return the class of each node; ``graph`` other than that of the fit for inductive use."""
        return self._fitted().predict(nodes, graph=graph)

    def predict_proba(self, nodes: ArrayLike, *, graph: Graph | None = None) -> NDArray[Any]:
        """Return class probabilities, shape (n, K), columns in the order of ``classes_``."""
        return self._fitted().predict_proba(nodes, graph=graph)

    def decision_function(self, nodes: ArrayLike, *, graph: Graph | None = None) -> NDArray[Any]:
        """Return the scores, shape (n, K); for two classes one number, positive for the second."""
        return self._fitted().decision_function(nodes, graph=graph)

    def score(
        self,
        nodes: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        graph: Graph | None = None,
    ) -> float:
        """Return the accuracy on ``nodes``."""
        return float(accuracy_score(y, self.predict(nodes, graph=graph), sample_weight=sample_weight))

    def staged_predict(self, nodes: ArrayLike, *, graph: Graph | None = None) -> Iterator[NDArray[Any]]:
        """Yield the classes after each round, of the model stopped there."""
        return self._fitted().staged_predict(nodes, graph=graph)

    def staged_predict_proba(self, nodes: ArrayLike, *, graph: Graph | None = None) -> Iterator[NDArray[Any]]:
        """Yield the class probabilities after each round."""
        return self._fitted().staged_predict_proba(nodes, graph=graph)

    def staged_score(
        self,
        nodes: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        graph: Graph | None = None,
    ) -> Iterator[float]:
        """Yield the accuracy after each round."""
        for labels in self.staged_predict(nodes, graph=graph):
            yield float(accuracy_score(y, labels, sample_weight=sample_weight))

    def fit_predict(self, nodes: ArrayLike, y: ArrayLike, *, graph: Graph, **fit_params: Any) -> NDArray[Any]:
        """Fit, and return the classes of *all* nodes of the graph, in row order."""
        self.fit(nodes, y, graph=graph, **fit_params)
        return self.predict(np.arange(graph.n_nodes))

    def save(self, path: str | os.PathLike[str], *, learners: bool = True) -> None:
        """Write the fitted model to one file, atomically and without pickle; :func:`gbgnn.load` reads it.

        Parameters
        ----------
        path
            The file, by custom ``*.gbgnn``.
        learners
            Whether to write the fitted learners; without them the file still predicts the nodes of the
            graph it was fitted on.
        """
        save(self._fitted(), path, learners=learners)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, ``part__setting`` included; a part given by name becomes an object first.

        A fitted model is not touched: it predicts as it was fitted until the next ``fit``.
        """
        for family in PARAMETERS:
            nested = any(name.startswith(f"{family}__") for name in params)
            current = params.get(family, getattr(self, family))
            if nested and isinstance(current, str):
                params[family] = as_part(family, current)
        if any(name.startswith("fine_tune__") for name in params):
            params["fine_tune"] = as_fine_tuner(params.get("fine_tune", self.fine_tune)) or FineTuner()
        super().set_params(**params)
        return self

    def _fitted(self) -> FittedModel:
        check_is_fitted(self, "model_")
        model: FittedModel = self.model_
        return model

    def _task(self) -> Task:
        task: Task = as_part("task", self.task)
        if not task.has_proba:
            raise ParameterError(
                f"GBGNNClassifier predicts classes or labels; task={task!r} is to predict numbers."
            )
        return task

    def _continues(self) -> bool:
        return self.warm_start and "model_" in vars(self)

    def _root_seed(self) -> int:
        if not self._continues():
            return root_seed(self.random_state)
        seed: int = self.model_.seed
        if isinstance(self.random_state, (int, np.integer)) and root_seed(self.random_state) != seed:
            raise ParameterError(
                f"warm_start goes on with rounds of random_state={seed}, and that has changed to "
                f"{self.random_state}. Restore it, or fit anew with warm_start=False."
            )
        return seed

    def _known_rounds(self, plan: FitPlan) -> Ensemble:
        """Return the rounds that a warm start goes on from, or say why it cannot."""
        if not self._continues():
            return Ensemble()
        known: FittedModel = self.model_
        if known.is_fine_tuned:
            raise ParameterError(
                "warm_start goes on with boosting, but these rounds were fine-tuned; fit anew, or boost on "
                "before fine-tuning."
            )
        if self.n_rounds < len(known.ensemble):
            raise ParameterError(
                f"warm_start has {len(known.ensemble)} trained rounds already; n_rounds must be at least "
                f"that, got {self.n_rounds}."
            )
        check_same(known, plan.graph, plan.depends_on)
        return known.ensemble

    def _callbacks(self) -> list[Callback]:
        extra: list[Callback] = list(self.callbacks)
        if self.n_iter_no_change is not None:
            extra.append(EarlyStopping(self.n_iter_no_change))
        if self.verbose:
            extra.append(LogProgress(self.verbose))
        return extra


@cache
def _shown() -> frozenset[str]:
    """Return the names of what a fitted model has, its fields and properties, as the estimator shows them."""
    computed = [k for k, v in vars(FittedModel).items() if isinstance(v, (property, cached_property))]
    return frozenset(f"{name}_" for name in (*FittedModel.__dataclass_fields__, *computed))
