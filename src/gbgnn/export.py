"""Fitted models in formats of others: learners as ONNX files, the propagation between them as a document."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from gbgnn._files import atomic_path, to_json, write_text
from gbgnn._version import __version__
from gbgnn.aggregation import Hop, MixingHop, PolynomialHop
from gbgnn.boosting import Round
from gbgnn.errors import ParameterError, import_needed
from gbgnn.learners import GraphNetworkHead, MLPHead, TreesHead
from gbgnn.learners.batched import NORM_FLOOR
from gbgnn.learners.tree_arrays import LEAF, TreeArrays
from gbgnn.model import FittedModel
from gbgnn.registry import part_name

DOCUMENT = "propagation.json"
FORMAT_VERSION = 1
_OPSETS = (("", 17), ("ai.onnx.ml", 3))
_IR_VERSION = 8  # what runtimes of the age of those can read

MATRICES = {
    "augmented": "P = L^(-1/2) (A + I) R^(-1/2); L and R are diagonal, of the row and column sums of A + I",
    "normalized": "P = L^(-1/2) A R^(-1/2); L and R are diagonal, of the row and column sums of A; 0 for 1/0",
    "random_walk": "P = L^(-1) A, with self_loops L^(-1) (A + I); L is diagonal, of its row sums; 0 for 1/0",
    "laplacian": "P = I - the P of normalized",
    "given": "P is the adjacency matrix A as it is, or the matrix that the model was given",
}
"""How P is made of the adjacency matrix A, whose row i holds the edges of node i."""

VOTES = {
    "outputs": "f = output",
    "classes": "f = 1 for the class with the largest output, -1/(n_classes - 1) for every other; where it "
    "is_soft, (n_classes * softmax(output) - 1) / (n_classes - 1); the last n_outputs columns of that",
    "log_proba": "log p = log(max(softmax(output), proba_floor)); f = (n_outputs - 1) (log p - its row mean)",
}
VOTES["labels"] = VOTES["classes"]
"""How the output of a learner becomes the direction f that is added to the scores."""

STEPS = (
    "X_1 = features of all nodes, every row divided by its norm where feature_norm names one",
    "for every round t, in order:",
    "  X_t = hop of X_(t-1), in round 1 of X_1: polynomial is the sum of coefficients[j] P^powers[j] X, plus "
    "injection times X_1; mixing is (P X) W, W in the file weight, with max(0, .) of it where not is_linear",
    "  output = the ONNX model file, rows of X_t as its input X",
    "  f = voting of output",
    "  scores = scores + eta f, from scores = 0",
)


GRAPH_STEPS = (
    "a round that names columns has a graph network, whose output is that of all nodes at once:",
    "  column j of its X is interp(x, knots[j], outputs[j]) of that file, piecewise linear and constant "
    "outside, of the columns that a node has of its own, as they are encoded, and of log(1 + its number of "
    "neighbours)",
    "  then n_labels columns: numbers that say what a node is and a 1 where its label is known, else zeros; "
    "whoever asks about a node that is known hides its label first",
    "  P_rows, P_columns and P_values are the entries of P",
)
"""What is said where there are such rounds."""


class Written(NamedTuple):
    """The inside of an ONNX graph, from ``X`` and further inputs to ``output``."""

    n_features: int
    n_outputs: int
    nodes: list[Any]
    constants: list[Any]
    further: Sequence[Any] = ()


def export_onnx(model: Any, folder: str | os.PathLike[str]) -> list[Path]:
    """Write the learners of the rounds that predict as ONNX files, and return the paths of all files.

    ``round_01.onnx`` and so on map rows of a representation, input ``X``, to outputs, ``output``. What is
    done between them, products with P and sums, is not in them: ``propagation.json`` says it in words and
    numbers, and a few lines of NumPy do it.

    Parameters
    ----------
    model
        A fitted estimator, or its ``model_``, whose learners are networks or boosted trees.
    folder
        Where to write; it must be empty, or not there.

    Examples
    --------
    >>> import tempfile
    >>> from gbgnn import GBGNNClassifier, datasets
    >>> data = datasets.load("karate")
    >>> model = GBGNNClassifier(n_rounds=2, random_state=0)
    >>> model = model.fit(data.train, data.y[data.train], graph=data.graph)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in export_onnx(model, folder)]
    ['round_01.onnx', 'round_02.onnx', 'propagation.json']
    """
    fitted: FittedModel = model if isinstance(model, FittedModel) else model.model_
    onnx, target = import_needed("onnx", "exporting to ONNX", "onnx"), Path(folder)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise ParameterError(f"{target} is there already, and not an empty folder; name another.")
    rounds = fitted.ensemble[: fitted.best_round].rounds
    made = {f"round_{each.t:02d}.onnx": _make_model(each, fitted.inputs.dtype) for each in rounds}
    weights = {f"hop_{each.t:02d}.npy": each.hop.weight for each in rounds if isinstance(each.hop, MixingHop)}
    maps = {_columns_file(r.t): r.head.columns for r in rounds if isinstance(r.head, GraphNetworkHead)}
    document = to_json(_describe(fitted, rounds), indent=2)
    for name, proto in made.items():
        with atomic_path(target / name) as part:
            onnx.save_model(proto, str(part))
    for name, weight in weights.items():
        with atomic_path(target / name) as part, part.open("wb") as file:
            np.save(file, weight.cpu().numpy())
    for name, columns in maps.items():
        with atomic_path(target / name) as part, part.open("wb") as file:
            np.savez(file, knots=columns.knots, outputs=columns.outputs)
    write_text(target / DOCUMENT, document)
    return [target / name for name in (*made, *weights, *maps, DOCUMENT)]


def _columns_file(t: int) -> str:
    return f"columns_{t:02d}.npz"


def _describe(model: FittedModel, rounds: Sequence[Round]) -> dict[str, Any]:
    """Return the document: what to do with the files, in words, and all numbers that it takes."""
    recipe, voting = model.inputs, part_name("voting", model.voting)
    propagation = part_name("propagation", recipe.propagation)
    settings = recipe.propagation.get_params(deep=False)
    return {
        "format_version": FORMAT_VERSION,
        "library_version": __version__,
        "steps": (*STEPS, *(GRAPH_STEPS if any(_graph_facts(r) for r in rounds) else ())),
        "n_features": model.n_features_in,
        "n_outputs": model.voting.n_outputs,
        "dtype": str(recipe.dtype).removeprefix("torch."),
        "feature_norm": recipe.feature_norm,
        "propagation": {
            "name": propagation,
            "matrix": MATRICES.get(propagation, "P is made by another package"),
            "settings": {name: value for name, value in settings.items() if not getattr(value, "ndim", 0)},
        },
        "task": {"name": part_name("task", model.task), **model.task.record()},
        "voting": {"name": voting, "direction": VOTES.get(voting), **model.voting.record()},
        "rounds": [
            {"round": r.t, "file": f"round_{r.t:02d}.onnx", "eta": r.eta, "hop": _describe_hop(r.t, r.hop)}
            | _graph_facts(r)
            for r in rounds
        ],
    }


def _graph_facts(trained: Round) -> dict[str, Any]:
    """Return what is to be known of a round's graph network; nothing of other learners."""
    if not isinstance(trained.head, GraphNetworkHead):
        return {}
    return {"columns": _columns_file(trained.t), "n_labels": trained.head.n_labels}


def _describe_hop(t: int, hop: Hop) -> dict[str, Any]:
    if isinstance(hop, PolynomialHop):
        numbers = {"powers": hop.powers, "coefficients": hop.coefficients, "injection": hop.injection}
        return {"name": "polynomial", **numbers}
    if isinstance(hop, MixingHop):
        return {"name": "mixing", "weight": f"hop_{t:02d}.npy", "is_linear": hop.is_linear}
    raise ParameterError(
        f"the hop of round {t}, a {type(hop).__name__}, has no form that a document can say."
    )


def _make_model(trained: Round, dtype: torch.dtype) -> Any:
    """Return the ONNX model of one learner."""
    head, helper = trained.kept_head(), import_needed("onnx.helper", "exporting to ONNX", "onnx")
    floats = np.dtype(str(dtype).removeprefix("torch."))
    if isinstance(head, MLPHead):
        written = _write_network(head, floats)
    elif isinstance(head, TreesHead):
        written = _write_trees(head, floats, trained.t)
    elif isinstance(head, GraphNetworkHead):
        if not head.is_plain:
            raise ParameterError(
                f"the graph network of round {trained.t} cannot be written as ONNX: that is for "
                'GraphNetwork(mixing="mean") on dense features.'
            )
        written = _write_graph_network(head, floats)
    else:
        name = f"{type(getattr(head, 'estimators', [head])[0]).__name__}"
        raise ParameterError(
            f"the learner of round {trained.t}, a {name}, cannot be written as ONNX; networks (MLP, "
            "GraphNetwork) and boosted trees (BoostedTrees) can."
        )
    kind = helper.np_dtype_to_tensor_dtype(floats)
    ends = (("X", written.n_features), ("output", written.n_outputs))
    given, wanted = (helper.make_tensor_value_info(name, kind, ["rows", n]) for name, n in ends)
    name, asked = f"round_{trained.t:02d}", [given, *written.further]
    graph = helper.make_graph(written.nodes, name, asked, [wanted], written.constants)
    opsets = [helper.make_opsetid(*each) for each in _OPSETS]
    return helper.make_model(graph, opset_imports=opsets, ir_version=_IR_VERSION, producer_name="gbgnn")


def _write_network(head: MLPHead, floats: np.dtype[Any]) -> Written:
    """Return linear layers with ReLU between them."""
    from onnx import helper, numpy_helper

    state = {name: value.cpu().numpy().astype(floats) for name, value in head.state_dict().items()}
    n_layers, last = len(head.layers), "X"
    nodes = []
    for i in range(n_layers):
        reached = "output" if i == n_layers - 1 else f"linear.{i}"
        inputs = [last, f"layers.{i}.weight", f"layers.{i}.bias"]
        nodes.append(helper.make_node("Gemm", inputs, [reached], transB=1))
        if reached != "output":
            last = f"hidden.{i}"
            if head.is_normed:
                parts, normed = [reached, f"ones.{i}", f"zeros.{i}"], f"normed.{i}"
                nodes.append(helper.make_node("LayerNormalization", parts, [normed], epsilon=NORM_FLOOR))
                ones = np.ones_like(state[f"layers.{i}.bias"])
                state |= {f"ones.{i}": ones, f"zeros.{i}": 0 * ones}
                reached = normed
            nodes.append(helper.make_node("Relu", [reached], [last]))
    constants = [numpy_helper.from_array(value, name) for name, value in state.items()]
    n_features, n_outputs = state["layers.0.weight"].shape[1], len(state[f"layers.{n_layers - 1}.bias"])
    return Written(n_features, n_outputs, nodes, constants)


def _write_graph_network(head: GraphNetworkHead, floats: np.dtype[Any]) -> Written:
    """Return residual blocks, whose products with P are sums over its entries."""
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[Any] = []

    def add(kind: str, inputs: Sequence[str], reached: str, **settings: Any) -> str:
        nodes.append(helper.make_node(kind, list(inputs), [reached], **settings))
        return reached

    def normalize(rows: str, name: str) -> str:
        parts = [add("Gather", [f"{name}scale", index], f"{name}{index}") for index in ("first", "second")]
        return add("LayerNormalization", [rows, *parts], f"{name}Z", epsilon=1e-5)

    state = {name: value.cpu().numpy().astype(floats) for name, value in head.state().items()}
    state = {name: value for name, value in state.items() if not name.startswith("columns.")}
    entered = add("Gemm", ["X", "enter.weight", "enter.bias"], "entered", transB=1)
    H = add("Relu", [entered], "H")
    column = add("Unsqueeze", ["P_values", "ones"], "P_column")
    places = add("Unsqueeze", ["P_rows", "ones"], "P_places")
    for i in range(len(head.blocks)):
        name = f"blocks.{i}."
        Z = normalize(H, name)
        heard = add("Mul", [add("Gather", [Z, "P_columns"], f"{name}heard"), column], f"{name}weighed")
        nothing = add("Sub", [Z, Z], f"{name}nothing")
        mixed = add("ScatterND", [nothing, places, heard], f"{name}mixed", reduction="add")
        own = add("Gemm", [Z, f"{name}own.weight", f"{name}own.bias"], f"{name}own", transB=1)
        told = add("Gemm", [mixed, f"{name}others", own], f"{name}told", transB=1)
        H = add("Add", [H, add("Relu", [told], f"{name}relu")], f"{name}H")
    add("Gemm", [normalize(H, "last."), "leave.weight", "leave.bias"], "output", transB=1)
    state["last.scale"] = state.pop("scale")
    state |= {"first": np.array(0), "second": np.array(1), "ones": np.array([1])}
    constants = [numpy_helper.from_array(value, name) for name, value in state.items()]
    kinds = {"P_rows": TensorProto.INT64, "P_columns": TensorProto.INT64}
    kinds["P_values"] = helper.np_dtype_to_tensor_dtype(floats)
    further = [helper.make_tensor_value_info(name, kind, ["entries"]) for name, kind in kinds.items()]
    n_features, n_outputs = state["enter.weight"].shape[1], len(state["leave.bias"])
    return Written(n_features, n_outputs, nodes, constants, further)


def _write_trees(head: TreesHead, floats: np.dtype[Any], t: int) -> Written:
    """Return a sum of trees."""
    from onnx import helper, numpy_helper

    trees, base = head.trees()
    if any(tree.has_categories for tree in trees):
        raise ParameterError(f"the trees of round {t} split by categories, which cannot be written as ONNX.")
    # XGBoost rounds rows to single precision.
    seen = np.dtype(np.float32) if any(tree.is_strict for tree in trees) else floats
    kind, own_kind = (helper.np_dtype_to_tensor_dtype(each) for each in (floats, seen))
    nodes = [helper.make_node("Cast", ["X"], ["seen"], to=own_kind)]
    fields = _list_nodes(trees, base, seen)
    nodes.append(helper.make_node("TreeEnsembleRegressor", ["seen"], ["sums"], domain="ai.onnx.ml", **fields))
    nodes.append(helper.make_node("Cast", ["sums"], ["logits"], to=kind))
    # Of two classes the trees know the logit of the second; that of the first is zero.
    spread = np.eye(head.n_outputs)[-len(base) :]
    nodes.append(helper.make_node("MatMul", ["logits", "spread"], ["output"]))
    constants = [numpy_helper.from_array(spread.astype(floats), "spread")]
    return Written(head.n_features, head.n_outputs, nodes, constants)


def _list_nodes(trees: Sequence[TreeArrays], base: NDArray[Any], seen: np.dtype[Any]) -> dict[str, Any]:
    """Return all nodes of all trees, as TreeEnsembleRegressor wants them."""
    lists: dict[str, list[Any]] = {}

    def add(prefix: str, **columns: Any) -> None:
        for name, column in columns.items():
            lists.setdefault(f"{prefix}_{name}", []).extend(np.asarray(column).tolist())

    for i, tree in enumerate(trees):
        ids, is_leaf = np.arange(len(tree.left)), tree.left == LEAF
        leaves = ids[is_leaf]
        add(
            "nodes",
            treeids=np.full(len(ids), i),
            nodeids=ids,
            featureids=np.where(is_leaf, 0, tree.feature),
            values=np.where(
                is_leaf, 0.0, tree.threshold if tree.is_strict else _round_down(tree.threshold, seen)
            ),
            modes=np.where(is_leaf, "LEAF", "BRANCH_LT" if tree.is_strict else "BRANCH_LEQ"),
            truenodeids=np.where(is_leaf, 0, tree.left),
            falsenodeids=np.where(is_leaf, 0, tree.right),
            missing_value_tracks_true=np.where(is_leaf, False, tree.missing_left).astype(int),
        )
        add(
            "target",
            treeids=np.full(len(leaves), i),
            nodeids=leaves,
            ids=np.full(len(leaves), tree.column),
            weights=tree.value[is_leaf],
        )
    fields: dict[str, Any] = {**lists, "base_values": base.tolist(), "n_targets": len(base)}
    return fields if seen == np.float32 else _as_tensors(fields)


def _as_tensors(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields with their numbers in double precision, which plain lists have not."""
    from onnx import numpy_helper

    for name in ("nodes_values", "target_weights", "base_values"):
        fields[f"{name}_as_tensor"] = numpy_helper.from_array(np.array(fields.pop(name)), name)
    return fields


def _round_down(thresholds: NDArray[Any], floats: np.dtype[Any]) -> NDArray[Any]:
    """Return the largest numbers of a type that are no larger: with them ``x <= threshold`` says the same."""
    with np.errstate(over="ignore"):
        near = thresholds.astype(floats)
    return np.where(near > thresholds, np.nextafter(near, floats.type(-np.inf)), near)
