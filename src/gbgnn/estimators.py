"""GBGNNClassifier: the method with scikit-learn's manners, on node ids."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gbgnn._checks import check_integer
from gbgnn._predictor import NodePredictor
from gbgnn._publish import Publish
from gbgnn._random import Seeds, root_seed
from gbgnn._tuning import as_tuner, check_tuning, tune
from gbgnn.boosting import (
    BoostingRule,
    Callback,
    EarlyStopping,
    Ensemble,
    LogProgress,
    RoundSelection,
    boost,
)
from gbgnn.errors import ParameterError, WeakLearnerError
from gbgnn.finetuning import FineTuner
from gbgnn.fitting import Labels, build_problem, check_graph
from gbgnn.graph import Graph
from gbgnn.registry import FAMILIES, as_part


class GBGNNClassifier(NodePredictor):
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
    select
        Which round predicts: ``"last"``, ``"validation"`` (best accuracy), ``"gradient"`` (smallest
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
        equals fitting 30.
    random_state
        Seed of all randomness: the same seed on the same machine gives the same bytes.
    verbose
        0 is silent; k logs every k-th round, and every k-th epoch of fine-tuning.

    Attributes
    ----------
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

    def __init__(
        self,
        *,
        aggregation: Any = "adjacency",
        learner: Any = "mlp",
        rule: Any = "gradient",
        propagation: Any = "augmented",
        feature_norm: str | None = None,
        n_rounds: int = 20,
        learning_rate: float | None = None,
        select: str = "auto",
        fine_tune: Any = None,
        class_weight: Any = None,
        validation_fraction: float | None = None,
        n_iter_no_change: int | None = None,
        keep_learners: bool = True,
        device: Any = "auto",
        dtype: Any = "float32",
        callbacks: Sequence[Callback] = (),
        warm_start: bool = False,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.aggregation = aggregation
        self.learner = learner
        self.rule = rule
        self.propagation = propagation
        self.feature_norm = feature_norm
        self.n_rounds = n_rounds
        self.learning_rate = learning_rate
        self.select = select
        self.fine_tune = fine_tune
        self.class_weight = class_weight
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.keep_learners = keep_learners
        self.device = device
        self.dtype = dtype
        self.callbacks = callbacks
        self.warm_start = warm_start
        self.random_state = random_state
        self.verbose = verbose

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
        check_integer("GBGNNClassifier", "n_rounds", self.n_rounds, 1)
        check_integer("GBGNNClassifier", "verbose", self.verbose, 0)
        seed = self._root_seed()
        problem, classes = build_problem(
            self, nodes, y, graph, validation=validation, sample_weight=sample_weight, seed=seed
        )
        aggregation, learner, rule = self._build_parts(problem.n_classes)
        selection = RoundSelection(self.select)
        selection.check(has_validation=problem.validation is not None)
        tuner = as_tuner(self.fine_tune)
        if tuner is not None:
            has_validation = problem.validation is not None
            check_tuning(tuner, learner, keep_learners=self.keep_learners, has_validation=has_validation)
        known = self._known_rounds(graph)
        publish = Publish(self, selection, classes, graph, seed)
        callbacks = [selection, publish, *self._callbacks()]
        result = boost(
            problem,
            aggregation,
            learner,
            rule,
            n_rounds=self.n_rounds,
            seeds=Seeds(seed),
            callbacks=callbacks,
            keep_learners=self.keep_learners,
            known=known,
            model=self,
        )
        if not len(result.ensemble):
            raise WeakLearnerError(
                f"round 1: {result.stop.message}, so there is nothing to predict with ({learner!r}). Give "
                "the learner more capacity or epochs, check the features, or try another rule."
            )
        if tuner is not None:
            tune(self, problem, rule, tuner, Seeds(seed).tuning(), callbacks)
        return self

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
        from gbgnn.persistence import save

        save(self, path, learners=learners)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, ``part__setting`` included; a part given by name becomes an object first."""
        for family in FAMILIES:
            nested = any(name.startswith(f"{family}__") for name in params)
            current = params.get(family, getattr(self, family))
            if nested and isinstance(current, str):
                params[family] = as_part(family, current)
        if any(name.startswith("fine_tune__") for name in params):
            params["fine_tune"] = as_tuner(params.get("fine_tune", self.fine_tune)) or FineTuner()
        super().set_params(**params)
        return self

    def _root_seed(self) -> int:
        if self._continues():
            seed: int = self.seed_
            return seed
        return root_seed(self.random_state)

    def _continues(self) -> bool:
        return self.warm_start and hasattr(self, "ensemble_")

    def _known_rounds(self, graph: Graph) -> Ensemble:
        if not self._continues():
            return Ensemble()
        known: Ensemble = self.ensemble_
        if self.fine_tuning_ is not None and self.fine_tuning_["kept"] == "tuned":
            raise ParameterError(
                "warm_start goes on with boosting, but these rounds were fine-tuned; fit anew, or boost on "
                "before fine-tuning."
            )
        if self.n_rounds < len(known):
            raise ParameterError(
                f"warm_start has {len(known)} trained rounds already; n_rounds must be at least that, "
                f"got {self.n_rounds}."
            )
        check_graph(graph, self.n_features_in_)
        return known

    def _build_parts(self, n_classes: int) -> tuple[Any, Any, BoostingRule]:
        aggregation = as_part("aggregation", self.aggregation)
        learner = as_part("learner", self.learner)
        rule = self._rule()
        aggregation.check()
        learner.check()
        rule.check(n_classes)
        return aggregation, learner, rule

    def _callbacks(self) -> list[Callback]:
        extra: list[Callback] = list(self.callbacks)
        if self.n_iter_no_change is not None:
            extra.append(EarlyStopping(self.n_iter_no_change))
        if self.verbose:
            extra.append(LogProgress(self.verbose))
        return extra
