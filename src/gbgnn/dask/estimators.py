"""DaskGBGNNClassifier and DaskGBGNNRegressor: the estimators, with the nodes on a Dask cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, cast

from distributed import Client
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from gbgnn._checks import check_integer
from gbgnn._threads import one_thread
from gbgnn.dask.graph import DaskGraph
from gbgnn.dask.layout import find_client, take
from gbgnn.dask.rows import DaskRows
from gbgnn.dask.scores import predict_chunk
from gbgnn.dask.storage import Cluster
from gbgnn.errors import ParameterError, import_needed
from gbgnn.estimators import GBGNNClassifier, GBGNNRegressor
from gbgnn.fitting import Labels
from gbgnn.graph import Graph
from gbgnn.model import FittedModel
from gbgnn.storage import IN_MEMORY

if TYPE_CHECKING:
    from gbgnn.base_estimator import GBGNNEstimator as Shared
else:  # a dataclass among the bases would bring its defaults back over those of the estimators
    Shared = object


class OnCluster(Shared):
    """What both have in common: where the rows of nodes are, and the way back to one machine."""

    client: Client | None

    @one_thread()
    def fit(
        self,
        nodes: ArrayLike,
        y: ArrayLike,
        *,
        graph: Graph | DaskGraph,
        validation: Labels | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Train on the labels of ``nodes``, which stay here.

        Parameters
        ----------
        nodes
            Row numbers of the labelled nodes, without repeats; :meth:`DaskGraph.rows_of` finds them by ids.
        y
            What is known of them: classes, labels or numbers.
        graph
            Edges and features of all nodes: on the workers, or in memory, from where they are sent.
        validation
            (nodes, y) for choosing the round and stopping early; disjoint from ``nodes``.
        sample_weight
            Weight of each labelled node, not negative; uniform when None.
        """
        owner = type(self).__name__
        check_integer(owner, "verbose", self.verbose, 0)
        if self.preset == "best":
            raise ParameterError(
                'preset="best" holds all rows of the graph in the memory of one machine; use '
                f'preset="default" on a cluster, or {owner.removeprefix("Dask")}.'
            )
        if self.memory_limit is not None or self.work_folder is not None:
            raise ParameterError(
                f"{owner} keeps rows on the workers of a cluster; memory_limit and work_folder are for one "
                f"machine: leave them out, or use {owner.removeprefix('Dask')}."
            )
        return self._train(
            self,
            self.task_for(y),
            nodes,
            y,
            graph,
            seed=self._root_seed(),
            storage=self._find_storage(),
            validation=validation,
            sample_weight=sample_weight,
        )

    def predict_frame(self, graph: Graph | DaskGraph | None = None) -> Any:
        """Return the predictions of all nodes as a dataframe of Dask's, which stays on the workers.

        Its columns are those of :func:`gbgnn.predictions_frame`; ``.to_parquet(folder)`` writes it there.

        Parameters
        ----------
        graph
            Another graph than that of the fit, for inductive use.
        """
        dd = import_needed("dask.dataframe", "predictions as a dataframe of Dask's", "dask")
        model, storage = cast(FittedModel, self._fitted()), self._find_storage()
        inputs = model.build_inputs(cast(Any, graph))
        X = inputs.features
        assert isinstance(X, DaskRows)
        own, layout = X.graph, X.graph.layout
        scores = storage.begin_scores(
            model.ensemble[: model.best_round], inputs, model.voting, dict.fromkeys(range(layout.n_chunks))
        )
        alone = layout.client.submit(take, as_local(model), pure=False)
        ids: Sequence[Any] = own.node_ids or [None] * layout.n_chunks
        parts = [
            layout.client.submit(predict_chunk, alone, *each, pure=False)
            for each in zip(scores, ids, layout.bounds[:-1], strict=True)
        ]
        meta = layout.client.submit(_head, parts[0]).result()
        return dd.from_delayed(parts, meta=meta)

    def to_local(self) -> Any:
        """Return the fitted model for one machine; it knows the graph of the fit where that is in memory.

        Of a graph that is on workers alone it predicts when it is given, in memory, or another one.
        """
        kind = next(each for each in (GBGNNClassifier, GBGNNRegressor) if isinstance(self, each))
        local = kind(**self.get_params(deep=False))
        local.model_ = as_local(self._fitted())
        return local

    def _find_storage(self) -> Cluster:
        """Return that of the model, so that a graph that is there is not sent again."""
        client, known = find_client(self.client), getattr(vars(self).get("model_"), "storage", None)
        return known if isinstance(known, Cluster) and known.client is client else Cluster(client)

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Leave out the client: it is no setting of a model, and can be neither copied nor written."""
        names: list[str] = super()._get_param_names()
        return [name for name in names if name != "client"]

    def __sklearn_clone__(self) -> Self:
        fresh = cast(Self, BaseEstimator.__sklearn_clone__(self))
        fresh.client = self.client
        return fresh

    def __getstate__(self) -> dict[str, Any]:
        """Travel without the cluster: elsewhere the model is one for a single machine."""
        state: dict[str, Any] = super().__getstate__()
        model = {"model_": as_local(state["model_"])} if "model_" in state else {}
        return state | model | {"client": None}


@dataclass(kw_only=True, eq=False, repr=False)
class DaskGBGNNClassifier(OnCluster, GBGNNClassifier):
    """:class:`~gbgnn.GBGNNClassifier` with the nodes on the workers of a Dask cluster.

    Parameters are those of :class:`~gbgnn.GBGNNClassifier`, and ``client``. Hops must be polynomials in P and
    learners must see labelled rows alone, as those of the paper do; other parts say that they need more.
    Where nothing was asked for, a model is that of ``preset="fast"``. The learner is trained here, on
    ``device``.

    Parameters
    ----------
    client
        The cluster, a ``distributed.Client``; None is that of the program.

    Examples
    --------
    >>> from distributed import Client
    >>> from gbgnn import datasets
    >>> data = datasets.load("karate")
    >>> with Client(processes=False, n_workers=2, threads_per_worker=1, dashboard_address=":0") as client:
    ...     model = DaskGBGNNClassifier(n_rounds=3, random_state=0, client=client)
    ...     model = model.fit(data.train, data.y[data.train], graph=data.graph)
    ...     found = model.predict(data.test)
    >>> bool((model.to_local().predict(data.test) == found).all())
    True
    """

    client: Client | None = None


@dataclass(kw_only=True, eq=False, repr=False)
class DaskGBGNNRegressor(OnCluster, GBGNNRegressor):
    """:class:`~gbgnn.GBGNNRegressor` with the nodes on the workers of a Dask cluster.

    Parameters are those of :class:`~gbgnn.GBGNNRegressor`, and ``client``; see :class:`DaskGBGNNClassifier`.

    Parameters
    ----------
    client
        The cluster, a ``distributed.Client``; None is that of the program.
    """

    client: Client | None = None


def as_local(model: Any) -> FittedModel:
    """Return a model without its cluster; a graph that is on workers stays there."""
    assert isinstance(model, FittedModel)
    graph = model.graph if isinstance(model.graph, Graph) else None
    known = model.stored_checksum if model.graph is None else model.graph.checksum
    return replace(model, storage=IN_MEMORY, graph=graph, stored_checksum=known)


def _head(frame: Any) -> Any:
    return frame.iloc[:0]
