"""GBGNNClassifier and GBGNNRegressor: the method with scikit-learn's manners, on node ids."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin, RegressorMixin, clone
from sklearn.metrics import accuracy_score, r2_score
from sklearn.utils import Tags

from gbgnn.base_estimator import GBGNNEstimator
from gbgnn.errors import ParameterError
from gbgnn.graph import Graph
from gbgnn.losses import Loss, Quantile
from gbgnn.registry import as_part
from gbgnn.tasks import Regression, Task, find_task


@dataclass(kw_only=True, eq=False, repr=False)
class GBGNNClassifier(ClassifierMixin, GBGNNEstimator):
    """A deep multi-scale graph neural network, trained by boosting.

    Each round mixes the node representations along the graph, fits a small learner on the labelled
    nodes and adds it to the scores of all nodes. Rows are *node ids*: ``fit(nodes, y, graph=graph)``
    sees the features and edges of all nodes but the labels of ``nodes`` alone.

    Parameters
    ----------
    preset
        Which parts a model gets whose settings were left as they are. ``"default"``: the paper's method, and
        for tables of at most 200 columns with at least 200 labels boosted trees on the columns of a node, of
        its neighbours and of labelled nodes nearby. ``"fast"``: the paper's method. ``"best"``: models of
        several families are trained, judged on the validation nodes and averaged; without such nodes, on
        folds of the labelled ones. It chooses all parts itself, so that none may be given.
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
        What y is: ``"classification"``, one class per node; ``"multilabel"``, a 0/1 matrix (dense or sparse)
        with a column per label, or a list of labels per node; ``"auto"`` finds out which of the two; or an
        object of :class:`~gbgnn.tasks.Task`.
    propagation
        The matrix P: ``"augmented"``, ``"normalized"``, ``"random_walk"``, ``"laplacian"``, ``"given"`` (the
        adjacency as it is) or an N x N matrix.
    feature_norm
        ``"l1"`` or ``"l2"`` brings every feature row to length one first, as is usual for counts of words;
        None takes the features as they are.
    neighbourhood
        ``"none"``, or columns that are there from the first round on: ``"wide"`` or an object such as
        ``Neighbourhood(hops=1)``.
    n_rounds
        The most rounds to train; the depth of the network.
    learning_rate
        Shrinkage of every step; None leaves the rule its own.
    metric
        By what the round is chosen, rounds are stopped early and fine-tuning is judged, on validation nodes:
        a name of scikit-learn's scorers (``"f1_macro"``, ``"roc_auc"``, ``"average_precision"``,
        ``"neg_log_loss"``, ...; of several classes the mean of each against the rest), a scorer or a
        :class:`~gbgnn.metrics.Metric`; ``"auto"`` is accuracy, of several labels micro-averaged F1.
    select
        Which round predicts: ``"last"``, ``"validation"`` (the best by ``metric``), ``"gradient"`` (smallest
        gradient norm), or ``"auto"``: validation where there are validation nodes, else last.
    fine_tune
        None; True or a :class:`~gbgnn.FineTuner`: after boosting, the rounds that predict are tuned end to
        end, and the better model by validation is kept.
    class_weight
        None, ``"balanced"`` or a dictionary from class to weight. Of several labels, every one is balanced by
        itself, and a dictionary says what a node that has the label weighs in it. ``"validation"`` gives
        classes the shares that they have among the validation nodes, where these differ by more than chance:
        all that training is told of their labels.
    validation_fraction
        Share of the labelled nodes to set aside, stratified, for choosing the round; None sets none
        aside. Not with ``validation=``.
    n_iter_no_change
        Stop after so many rounds without a better validation result; None never stops early.
    time_limit
        Seconds that training may take, or text such as ``"10m"``; None for as long as it needs. The first
        round that ends later is the last, and ``preset="best"`` begins nothing that would not end in time.
    memory_limit
        Bytes that the process may take, or text such as ``"4GB"``: representations that leave no room are
        written to disk and mixed a few columns at a time, and learners see the rows of labelled and
        validation nodes. That takes the paper's method: a learner of rows and a hop that is a polynomial in
        P. What the learner itself makes of very many labelled rows is not planned for, and may exceed the
        limit. None keeps everything in memory.
    work_folder
        Where such representations are written; None is a folder for temporary files. A fit that was killed
        goes on from what is there (with ``warm_start``). It is yours to remove.
    keep_learners
        Whether to keep the fitted learners, which staged and inductive prediction need. Without,
        memory is flat in ``n_rounds``.
    device
        ``"auto"``, ``"cpu"``, ``"cuda"`` or a torch device.
    dtype
        Precision of representations and scores: ``"float32"`` or ``"float64"``; ``"bfloat16"`` stores
        representations in 16 bits and computes everything else in 32.
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
        not touch. All attributes below are its fields. With ``preset="best"`` it is a
        :class:`~gbgnn.blend.BlendedModel`, whose members have what belongs to rounds.
    leaderboard_, members_
        With ``preset="best"``: what was tried, a dictionary for each candidate, and the models whose average
        predicts, with their weights.
    classes_
        The classes, or the labels of the columns.
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

    class_weight: Any = None

    score = GBGNNEstimator.score  # the mixin's knows no graph

    def task_for(self, y: ArrayLike) -> Task:
        """Return classes or labels, as ``task`` or y says."""
        if isinstance(self.task, str) and self.task == "auto":
            return find_task(y)
        task: Task = as_part("task", self.task)
        if not task.has_proba:
            raise ParameterError(
                f"GBGNNClassifier predicts classes or labels; task={task!r} is to predict numbers: use "
                "GBGNNRegressor."
            )
        return task

    def predict(self, nodes: ArrayLike, *, graph: Graph | None = None) -> NDArray[Any]:
        """Return the class of each node, or a 0/1 matrix with a column per label.

        A ``graph`` other than that of the fit is for inductive use.
        """
        return self._fitted().predict(nodes, graph=graph)

    def predict_proba(self, nodes: ArrayLike, *, graph: Graph | None = None) -> NDArray[Any]:
        """Return class probabilities, shape (n, K), columns in the order of ``classes_``."""
        return self._fitted().predict_proba(nodes, graph=graph)

    def decision_function(self, nodes: ArrayLike, *, graph: Graph | None = None) -> NDArray[Any]:
        """Return the scores, shape (n, K); for two classes one number, positive for the second."""
        return self._fitted().decision_function(nodes, graph=graph)

    def staged_predict_proba(self, nodes: ArrayLike, *, graph: Graph | None = None) -> Iterator[NDArray[Any]]:
        """Yield the class probabilities after each round."""
        return self._fitted().staged_predict_proba(nodes, graph=graph)

    def _judge(self, y: ArrayLike, predicted: NDArray[Any], sample_weight: ArrayLike | None) -> float:
        """Return the accuracy; of several labels all must be right."""
        task = self._fitted().task
        truth = y if task.has_classes else task.decode(task.encode(y))
        return float(accuracy_score(truth, predicted, sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class GBGNNRegressor(RegressorMixin, GBGNNEstimator):
    """The same network for numbers: one per node, or several.

    Parameters are those of :class:`GBGNNClassifier`, and these; the rule must be ``"gradient"``.

    Parameters
    ----------
    loss
        What is minimised: ``"squared"`` (the mean is predicted), ``"absolute"`` (the median), ``"huber"``
        (outliers weigh less), ``"quantile"``, ``"poisson"`` (counts; the logarithm is boosted), or an object
        such as ``Huber(delta=2.0)`` or ``Quantile(levels=[0.1, 0.5, 0.9])``. ``"auto"`` is the rule's own, by
        default the squared error. Boosting starts at the constant that suits, and the unit of y does not
        matter. Squared and Huber's have a ``certificate_``; for the others steps are searched for.
    quantile
        The level, or several in one fit, of ``loss="quantile"``, in (0, 1).
    task
        ``"regression"``, or an object such as ``Regression(centre=0.0)``.
    metric
        As in :class:`GBGNNClassifier`; ``"auto"`` is ``"r2"`` for the squared error and what suits other
        losses: absolute error, pinball loss, Poisson deviance.

    Attributes
    ----------
    model_
        The fitted model; all attributes are its fields, as in :class:`GBGNNClassifier`.

    Examples
    --------
    >>> from gbgnn import GBGNNRegressor, datasets
    >>> data = datasets.load("karate")
    >>> degree = data.graph.adjacency.sum(axis=1)
    >>> model = GBGNNRegressor(loss="quantile", quantile=[0.1, 0.5, 0.9], n_rounds=5, random_state=0)
    >>> model = model.fit(data.train, degree[data.train], graph=data.graph)
    >>> model.predict(data.test).shape == data.test.shape
    True
    >>> low, high = model.predict(data.test, quantiles=[0.1, 0.9]).T
    >>> bool((low <= high).all())
    True
    """

    task: Any = "regression"
    loss: Any = "auto"
    quantile: Any = 0.5

    score = GBGNNEstimator.score  # the mixin's knows no graph

    def task_for(self, y: ArrayLike) -> Task:
        """Return numbers, made ready for the loss."""
        task: Task = as_part("task", self.task)
        if not isinstance(task, Regression):
            raise ParameterError(
                f"GBGNNRegressor predicts numbers; task={task!r} is to predict classes: use GBGNNClassifier."
            )
        found: Task = clone(task).set_params(loss=task.loss or self.loss_for_rule())
        return found

    def loss_for_rule(self) -> Loss | None:
        """Return the loss of this regressor, or that which its rule has."""
        of_rule = getattr(as_part("rule", self.rule), "loss", "auto")
        if isinstance(of_rule, str) and of_rule == "auto":
            named = "squared" if isinstance(self.loss, str) and self.loss == "auto" else self.loss
        elif isinstance(self.loss, str) and self.loss == "auto":
            named = of_rule
        else:
            raise ParameterError(
                f"the loss is given twice, loss={self.loss!r} and by the rule, {of_rule!r}; leave one of "
                'them "auto".'
            )
        if isinstance(named, str) and named == "quantile":
            return Quantile(levels=self.quantile)
        loss: Loss = as_part("loss", named)
        return loss

    def predict(
        self, nodes: ArrayLike, *, graph: Graph | None = None, quantiles: ArrayLike | None = None
    ) -> NDArray[Any]:
        """Return the number of each node, shape (n,), or as many as y had, (n, columns).

        Parameters
        ----------
        nodes
            Ids of nodes.
        graph
            Another graph than that of the fit, for inductive use.
        quantiles
            Levels that were fitted: returns these quantiles, in ascending order whatever the rounds say, as a
            last axis. Without, a fit of several levels predicts that nearest to the median.
        """
        return self._fitted().predict(nodes, graph=graph, quantiles=quantiles)

    def _judge(self, y: ArrayLike, predicted: NDArray[Any], sample_weight: ArrayLike | None) -> float:
        """Return R2."""
        return float(r2_score(y, predicted, sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags
