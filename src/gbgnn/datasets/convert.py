"""Graphs of other libraries, taken over and handed on: PyG and NetworkX."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from gbgnn.datasets.dataset import Dataset
from gbgnn.datasets.splits import SplitChoice, choose_split, find_splits, named_split
from gbgnn.datasets.targets import as_target, as_typed_target, is_labelled
from gbgnn.errors import DataError, import_needed, suggest
from gbgnn.graph import Graph
from gbgnn.labels import PARTS
from gbgnn.tables.links import build_adjacency


def from_pyg(
    data: Any,
    *,
    task: str | None = None,
    split: SplitChoice = None,
    weight: str | None = None,
    seed: int = 0,
    name: str = "pyg",
) -> Dataset:
    """Take over a PyG ``Data`` object.

    Column ``(j, i)`` of ``edge_index`` is the edge from node j to node i. Self loops are dropped and repeated
    edges merged; ``graph.repairs`` says how many.

    Parameters
    ----------
    data
        Object with ``edge_index``, ``x``, ``y`` and maybe masks of shape (n,) or (n, k), or ``train_idx`` and
        its like.
    task
        ``"classification"`` or ``"regression"``; None takes integers for classes and finds out about other
        numbers, see :func:`as_target`.
    split
        Number of one of several masks, ``"random"``, ``"stratified"``, ``"uniform"``, a fold, or a NodeSplit;
        None takes the object's own masks.
    weight
        Attribute with one weight per edge; None takes ``edge_weight`` if there is one.
    seed, name
        Seed of a drawn split, and name of the data set.

    Examples
    --------
    >>> import torch
    >>> from types import SimpleNamespace
    >>> from gbgnn import NodeSplit
    >>> one_way = SimpleNamespace(
    ...     edge_index=torch.tensor([[0], [1]]), x=torch.eye(2), y=torch.tensor([0, 1])
    ... )
    >>> from_pyg(one_way, split=NodeSplit([0, 1])).graph.adjacency.toarray()
    array([[0., 0.],
           [1., 0.]], dtype=float32)
    """
    edge_index = _needed(data, "edge_index", "edges")
    x, y = _needed(data, "x", "features"), _needed(data, "y", "labels")
    if edge_index.ndim != 2 or edge_index.shape[0] != 2:
        raise DataError(f"edge_index must have shape (2, n_edges); got {edge_index.shape}.")
    n_nodes = len(x)
    outside = edge_index[(edge_index < 0) | (edge_index >= n_nodes)]
    if len(outside):
        raise DataError(f"edge_index names node {outside[0]}, but x has {n_nodes} rows.")
    n_edges, weights = edge_index.shape[1], _array(data, weight or "edge_weight")
    if weights is None and weight:
        raise DataError(f"{type(data).__name__} has no {weight} to take edge weights from.")
    if weights is not None:
        if weights.shape not in ((n_edges,), (n_edges, 1)):
            raise DataError(
                f"{weight or 'edge_weight'} has shape {weights.shape}; expected one weight for each of the "
                f"{n_edges} edges."
            )
        weights = weights.reshape(n_edges)
    adjacency, repairs = build_adjacency(edge_index, n_nodes, weights=weights, directed=True)
    target = as_typed_target(y, "y", task)
    own = find_splits(partial(_array, data), n_nodes, name)
    chosen, how = choose_split(split, target.values, own, name, seed=seed)
    return Dataset(
        *(name, Graph(adjacency, x, repairs=repairs), target.values, chosen),
        split_name=how,
        task=target.task,
        task_reason=target.reason,
        own_splits=own,
    )


def to_pyg(dataset: Dataset) -> Any:
    """Return a PyG ``Data`` object: dense ``x``, ``y``, ``edge_index``, and masks.

    Text classes become their places among the sorted classes; nodes without a label hold -1, or NaN in a
    regression. Masks have a column for each of several splits that came with the data, else they are those of
    the data set's own split. Weights are ``edge_weight`` where some differ from one.

    Examples
    --------
    >>> from gbgnn.datasets import karate
    >>> to_pyg(karate())  # doctest: +SKIP
    Data(x=[34, 34], edge_index=[2, 156], y=[34], train_mask=[34], val_mask=[34], test_mask=[34])
    """
    import torch

    Data = import_needed("torch_geometric.data", "handing a graph to PyG", "lab").Data
    graph = dataset.graph
    coo = graph.adjacency.tocoo()
    data = Data(
        x=torch.tensor(_as_dense(graph)),
        edge_index=torch.tensor(np.stack([coo.col, coo.row]).astype(np.int64)),
        y=torch.tensor(_as_codes(dataset)),
    )
    if graph.is_weighted:
        data.edge_weight = torch.tensor(coo.data)
    splits = dataset.own_splits if len(dataset.own_splits) > 1 else [dataset.split]
    for part in PARTS:
        masks = np.zeros((graph.n_nodes, len(splits)), bool)
        for column, split in enumerate(splits):
            masks[getattr(split, part), column] = True
        data[f"{part}_mask"] = torch.tensor(masks if len(splits) > 1 else masks[:, 0])
    return data


def _as_codes(dataset: Dataset) -> NDArray[Any]:
    """Return y without text."""
    if dataset.y.dtype.kind != "U":
        return dataset.y
    return np.where(is_labelled(dataset.y), np.searchsorted(dataset.classes, dataset.y), -1)


def from_networkx(
    G: Any,
    *,
    features: str | Sequence[str] | None = None,
    label: str = "label",
    weight: str | None = "weight",
    task: str | None = None,
    split: SplitChoice = None,
    seed: int = 0,
    name: str | None = None,
) -> Dataset:
    """Take over a NetworkX graph.

    In a ``DiGraph`` an edge from u to v lets v aggregate from u. Node names are kept as ``graph.node_ids``:
    integers and strings as they are, anything else as its text.

    Parameters
    ----------
    G
        Any kind of NetworkX graph.
    features
        Node attribute or attributes, each a number or a list of numbers. None gives every node a
        feature of its own (one-hot).
    label
        Node attribute with the class or number to be predicted; nodes without it are unlabelled.
    weight
        Edge attribute with the weight; edges without it weigh 1.
    task
        ``"classification"`` or ``"regression"``; None finds out, see :func:`as_target`.
    split
        A node attribute with the words train, val and test; or ``"random"``, ``"stratified"``, ``"uniform"``,
        the number of a fold, or a NodeSplit.
    seed, name
        Seed of a drawn split, and name of the data set; the graph's own name when not given.

    Examples
    --------
    >>> import networkx as nx
    >>> from_networkx(nx.karate_club_graph(), label="club", split="stratified", name="club")
    Dataset('club', n_nodes=34, n_edges=78, n_features=34, n_classes=2, train=20, val=8, test=6)
    """
    if not hasattr(G, "nodes") or not hasattr(G, "is_directed"):
        raise DataError(f"from_networkx needs a NetworkX graph; got {type(G).__name__}.")
    nodes = list(G.nodes)
    if not nodes:
        raise DataError("the graph has no nodes.")
    row = {node: position for position, node in enumerate(nodes)}
    ends = np.array([(row[u], row[v]) for u, v in G.edges()], dtype=np.int64).reshape(-1, 2)
    given = [] if weight is None else [value for *_, value in G.edges(data=weight)]
    weights = None
    if any(value is not None for value in given):
        weights = np.array([1.0 if value is None else value for value in given])
    adjacency, repairs = build_adjacency(ends.T, len(nodes), weights=weights, directed=G.is_directed())
    is_plain = {type(node) for node in nodes} in ({int}, {str})
    ids = np.array(nodes if is_plain else [str(node) for node in nodes])
    graph = Graph(adjacency, _nx_features(G, features), node_ids=ids, repairs=repairs)
    values = np.array(_attribute(G, label, "labels"), dtype=object)
    target = as_target(values, f"attribute {label!r}", task, f"attribute {label!r}")
    title = name or getattr(G, "name", "") or "networkx"
    if isinstance(split, str) and any(split in attributes for _, attributes in G.nodes(data=True)):
        words = ["" if word is None else word for _, word in G.nodes(data=split)]
        chosen, how = named_split(np.array(words), f"attribute {split!r}"), "public"
    else:
        chosen, how = choose_split(split, target.values, (), title, seed=seed)
    return Dataset(
        title, graph, target.values, chosen, split_name=how, task=target.task, task_reason=target.reason
    )


def to_networkx(dataset: Dataset) -> Any:
    """Return a NetworkX graph, directed where the data is, its nodes named by ``graph.node_ids``.

    Node attributes are ``features`` (a list), ``label`` where there is one, and ``split`` with the words
    train, val and test; edges have a ``weight`` where some weight differs from one.
    ``from_networkx(G, features="features", split="split")`` gives the data back.

    Examples
    --------
    >>> from gbgnn.datasets import karate
    >>> to_networkx(karate()).nodes[33]["label"]
    1
    """
    networkx = import_needed("networkx", "handing a graph to NetworkX", "io")
    graph = dataset.graph
    G = networkx.DiGraph(name=dataset.name) if graph.is_directed else networkx.Graph(name=dataset.name)
    X = _as_dense(graph)
    ids = graph.node_ids.tolist()
    words = dict.fromkeys(range(graph.n_nodes), "")
    words |= {int(node): part for part in PARTS for node in getattr(dataset, part)}
    known = is_labelled(dataset.y)
    for row, name in enumerate(ids):
        label = {"label": dataset.y[row].item()} if known[row] else {}
        G.add_node(name, features=X[row].tolist(), split=words[row], **label)
    coo = graph.adjacency.tocoo()
    ends = zip(coo.col.tolist(), coo.row.tolist(), coo.data.tolist(), strict=True)
    for source, target, weight in ends:
        G.add_edge(ids[source], ids[target], **({"weight": weight} if graph.is_weighted else {}))
    return G


def _as_dense(graph: Graph) -> NDArray[Any]:
    X: Any = graph.features
    return np.array(X.toarray() if sp.issparse(X) else X)


def _array(data: Any, key: str) -> NDArray[Any] | None:
    value = getattr(data, key, None)
    return None if value is None else np.asarray(value.detach().cpu() if hasattr(value, "detach") else value)


def _needed(data: Any, key: str, meaning: str) -> NDArray[Any]:
    value = _array(data, key)
    if value is None:
        raise DataError(f"{type(data).__name__} has no {key}, so no {meaning}; set it first.")
    return value


def _attribute(G: Any, key: str, role: str) -> list[Any]:
    """Return an attribute of all nodes, None where a node lacks it."""
    if not any(key in attributes for _, attributes in G.nodes(data=True)):
        names = sorted({str(name) for _, attributes in G.nodes(data=True) for name in attributes})
        raise DataError(
            f"no node has an attribute {key!r} for the {role}.{suggest(key, names)} "
            f"Attributes: {', '.join(names) or 'none'}."
        )
    return [value for _, value in G.nodes(data=key)]


def _nx_features(G: Any, features: str | Sequence[str] | None) -> Any:
    if features is None:
        return sp.eye_array(len(G), dtype=np.float32, format="csr")
    blocks = []
    for key in [features] if isinstance(features, str) else features:
        values = _attribute(G, key, "features")
        bare = [node for node, value in zip(G.nodes, values, strict=True) if value is None]
        if bare:
            raise DataError(f"{len(bare)} nodes lack the feature {key!r} (first: {bare[0]!r}).")
        try:
            block = np.array(values, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise DataError(f"feature {key!r} is not one number or list per node: {error}.") from error
        blocks.append(block.reshape(len(values), -1))
    return np.hstack(blocks)
