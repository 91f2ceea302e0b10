"""GBGNNEstimator: what a classifier and a regressor share, fitting first of all."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from gbgnn._checks import check_integer
from gbgnn._random import root_seed
from gbgnn._threads import one_thread
from gbgnn.best import train_best
from gbgnn.blend import BlendedModel
from gbgnn.callbacks import Callback, find_deadline, list_callbacks
from gbgnn.errors import AbsentError, ParameterError
from gbgnn.explanations import (
    Attributions,
    Contributions,
    Explanation,
    NeighbourContributions,
    ResponseCurves,
)
from gbgnn.finetuning import FineTuner, as_fine_tuner
from gbgnn.fitting import FitPlan, Labels, check_same
from gbgnn.graph import Graph
from gbgnn.losses import Loss
from gbgnn.model import FittedModel, check_graph
from gbgnn.persistence import save
from gbgnn.predictor import Predictor
from gbgnn.presets import Facts, adapt
from gbgnn.registry import PARAMETERS, as_dtype, as_part
from gbgnn.storage import find_storage
from gbgnn.tasks import Task
from gbgnn.training import train


@dataclass(kw_only=True, eq=False, repr=False)
class GBGNNEstimator(BaseEstimator, ABC):
    """What :class:`GBGNNClassifier` and :class:`GBGNNRegressor` have in common: all but what y is."""

    preset: str = "default"
    aggregation: Any = "adjacency"
    learner: Any = "mlp"
    rule: Any = "gradient"
    task: Any = "auto"
    propagation: Any = "augmented"
    feature_norm: str | None = None
    neighbourhood: Any = "none"
    n_rounds: int = 20
    learning_rate: float | None = None
    metric: Any = "auto"
    select: str = "auto"
    fine_tune: Any = None
    validation_fraction: float | None = None
    n_iter_no_change: int | None = None
    time_limit: float | str | None = None
    memory_limit: int | str | None = None
    work_folder: str | os.PathLike[str] | None = None
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
            What is known of them: classes, labels or numbers.
        graph
            Edges and features of all nodes.
        validation
            (nodes, y) for choosing the round and stopping early; disjoint from ``nodes``.
        sample_weight
            Weight of each labelled node, not negative; uniform when None.
        """
        check_integer(type(self).__name__, "verbose", self.verbose, 0)
        task, seed = self.task_for(y), self._root_seed()
        check_graph(graph)
        facts = Facts.of(graph, task, nodes, y, has_validation=validation is not None)
        labels: dict[str, Any] = {"validation": validation, "sample_weight": sample_weight}
        storage = find_storage(self)
        is_held = storage.holds(graph, as_dtype(self.dtype), facts.n_scores)
        if self.preset == "best":
            if not is_held:
                raise ParameterError(
                    'preset="best" holds all rows of the graph in memory, for which '
                    f'memory_limit={self.memory_limit!r} leaves no room; use preset="default".'
                )
            self._keep(train_best(self, task, nodes, y, graph, seed=seed, keep=self._keep, **labels))
            return self
        model = adapt(self, facts) if is_held else self
        return self._train(model, task, nodes, y, graph, seed=seed, storage=storage, **labels)

    def _train(self, model: Any, task: Task, nodes: ArrayLike, y: ArrayLike, graph: Any, **plan: Any) -> Self:
        """Train one model with the parts of another; ``plan`` are the other arguments of a FitPlan."""
        deadline = find_deadline(self)
        checked = FitPlan.build(model, task, nodes, y, graph, **plan)
        known, callbacks = self._known_model(checked), list_callbacks(self, deadline)
        self._keep(train(checked, callbacks, keep=self._keep, known=known))
        return self

    def _keep(self, model: Predictor) -> None:
        """Hold on to what is trained so far: a fit may be interrupted."""
        self.model_: Any = model

    @abstractmethod
    def task_for(self, y: ArrayLike) -> Task:
        """Return what y is to be taken for, a task that is not fitted yet."""

    def loss_for_rule(self) -> Loss | None:
        """Return the loss that the boosting rule is to minimise; None leaves the rule its own."""
        return None

    @abstractmethod
    def _judge(self, y: ArrayLike, predicted: NDArray[Any], sample_weight: ArrayLike | None) -> float:
        """Return how good predictions are."""

    def __getattr__(self, name: str) -> Any:
        """Show what the fitted model has: ``classes_`` is ``model_.classes``."""
        model = vars(self).get("model_")
        of_one, of_several = _shown(FittedModel), _shown(BlendedModel)
        if name not in of_one | of_several:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        if model is None:  # an AttributeError too, so that hasattr says no
            raise NotFittedError(f"{name} is known after a fit; call fit first.")
        if isinstance(model, FittedModel) and name not in of_one:
            raise AbsentError(f'there is no {name}: this is one model; preset="best" averages several.')
        return getattr(model, name.removesuffix("_"))

    def __dir__(self) -> list[str]:
        model: Predictor | None = vars(self).get("model_")
        return sorted({*super().__dir__(), *(() if model is None else _shown(type(model)))})

    def score(
        self,
        nodes: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        graph: Graph | None = None,
    ) -> float:
        """Return how good the predictions are: the accuracy of a classifier, the R2 of a regressor."""
        return self._judge(y, self._fitted().predict(nodes, graph=graph), sample_weight)

    def staged_predict(self, nodes: ArrayLike, *, graph: Graph | None = None) -> Iterator[NDArray[Any]]:
        """Yield the predictions after each round, of the model stopped there."""
        return self._fitted().staged_predict(nodes, graph=graph)

    def staged_score(
        self,
        nodes: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        graph: Graph | None = None,
    ) -> Iterator[float]:
        """Yield :meth:`score` after each round."""
        for predicted in self.staged_predict(nodes, graph=graph):
            yield self._judge(y, predicted, sample_weight)

    def column_importances(self, *, graph: Graph | None = None) -> dict[str, float]:
        """Return how much predictions owe to each column that learners see, by its name; in all, one.

        ``feature_importances_`` are the same by the user's own columns. See
        :meth:`FittedModel.column_importances <gbgnn.model.FittedModel.column_importances>`.
        """
        return self._fitted().column_importances(graph=graph)

    def contributions(self, nodes: ArrayLike, *, graph: Graph | None = None) -> Contributions:
        """Return what every round, and every distance along the graph, added to the scores of ``nodes``.

        Examples
        --------
        >>> from gbgnn import GBGNNClassifier, datasets
        >>> data = datasets.load("karate")
        >>> model = GBGNNClassifier(preset="fast", n_rounds=3, select="last", random_state=0)
        >>> model = model.fit(data.train, data.y[data.train], graph=data.graph)
        >>> told = model.contributions([8, 30])
        >>> told.by_round.shape, told.scales
        ((2, 3, 1), ['own columns', '1 hop', '2 hops'])
        >>> bool(np.allclose(told.scores, model.scores_[[8, 30]]))
        True
        """
        return self._fitted().contributions(nodes, graph=graph)

    def attributions(self, nodes: ArrayLike, *, graph: Graph | None = None) -> Attributions:
        """Return what each of the user's columns added to the scores of ``nodes``.

        Examples
        --------
        >>> from gbgnn import GBGNNClassifier, datasets
        >>> data = datasets.csbm(n_nodes=200, per_class=20, seed=0)
        >>> model = GBGNNClassifier(preset="fast", n_rounds=3, random_state=0)
        >>> model = model.fit(data.train, data.y[data.train], graph=data.graph)
        >>> told = model.attributions(data.test[:4])
        >>> len(told.top(0, n=3)), bool(np.allclose(told.scores, model.scores_[data.test[:4]], atol=1e-5))
        (3, True)
        """
        return self._fitted().attributions(nodes, graph=graph)

    def neighbour_contributions(
        self, nodes: ArrayLike, *, graph: Graph | None = None
    ) -> list[NeighbourContributions]:
        """Return for each of ``nodes`` what every node that it hears of, itself too, added to its scores."""
        return self._fitted().neighbour_contributions(nodes, graph=graph)

    def explain(self, nodes: ArrayLike, *, graph: Graph | None = None) -> Explanation:
        """Return all three of some nodes: computed when asked for, from one pass over the rounds."""
        return self._fitted().explain(nodes, graph=graph)

    def scale_shares(self, nodes: ArrayLike | None = None, *, graph: Graph | None = None) -> dict[str, float]:
        """Return how much of all that was added to scores, of all nodes or some, came from each distance."""
        return self._fitted().scale_shares(nodes, graph=graph)

    def response_curves(self, *, graph: Graph | None = None, n_points: int = 201) -> ResponseCurves:
        """Return by what rounds multiply the eigenvectors of P, where their hops are polynomials in it."""
        return self._fitted().response_curves(graph=graph, n_points=n_points)

    def fit_predict(self, nodes: ArrayLike, y: ArrayLike, *, graph: Graph, **fit_params: Any) -> NDArray[Any]:
        """Fit, and return the predictions of *all* nodes of the graph, in row order."""
        return self.fit(nodes, y, graph=graph, **fit_params)._fitted().predict(np.arange(graph.n_nodes))

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

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.one_d_array, tags.input_tags.two_d_array = True, False  # node ids
        return tags

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

    def _repr_html_inner(self) -> str:
        """Return what was fitted, above the parameters as scikit-learn shows them; a notebook asks for it."""
        model, diagram = vars(self).get("model_"), str(super()._repr_html_inner())
        return diagram if model is None else model._repr_html_() + diagram

    def _repr_mimebundle_(self, **how: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**how)
        return bundle | ({"text/html": self._repr_html_inner()} if "text/html" in bundle else {})

    def _fitted(self) -> Predictor:
        check_is_fitted(self, "model_")
        model: Predictor = self.model_
        return model

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

    def _known_model(self, plan: FitPlan) -> FittedModel | None:
        """Return the model that a warm start goes on with, if it is to, or say why it cannot."""
        if not self._continues():
            return None
        known = self.model_
        if not isinstance(known, FittedModel):
            raise ParameterError(
                'warm_start goes on with the rounds of one model, but preset="best" made an average of '
                "several; fit anew with warm_start=False."
            )
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
        return known


@cache
def _shown(kind: type[Predictor]) -> frozenset[str]:
    """Return the names of what a fitted model has, its fields and properties, as the estimator shows them."""
    described = [pair for each in (Predictor, kind) for pair in vars(each).items()]
    computed = [name for name, value in described if isinstance(value, (property, cached_property))]
    stated = [each.name for each in fields(kind)]  # type: ignore[arg-type]  # both kinds are dataclasses
    return frozenset(f"{name}_" for name in (*stated, *computed))
