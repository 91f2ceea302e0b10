"""Fitted scikit-learn estimators as bytes, in skops' format: no pickle, and nothing in it that may run.

skops writes a zip archive of JSON and arrays and, before it builds anything, compares the types in it with
those that it trusts. On top of that the types must be among ours, so must the ways of building them; and
trees are checked node by node, because compiled code follows their indices without looking.
"""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from gbgnn.errors import MissingDependencyError, ModelFileError, import_needed
from gbgnn.learners.tree_arrays import check_children

PACKAGES = ("builtins", "numpy", "scipy", "sklearn")
"""Where types may come from."""

REFUSED = ("sklearn.svm.",)
"""What skops trusts, but whose compiled code reads by numbers in the file that nothing checks."""

TRUSTED = (
    "sklearn.tree._tree.Tree",
    "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
    # How HistGradientBoosting checks columns of categories.
    "functools.partial",
    "sklearn.utils.validation.check_array",
)
"""The types that are trusted beside those that skops trusts by itself."""

LOADERS = tuple(
    f"{name}Node"
    for name in (
        *("Dict", "List", "Set", "Tuple", "Slice", "Json", "Type", "Object", "Function", "Partial"),
        *("NdArray", "DType", "MaskedArray", "RandomState", "RandomGenerator", "SparseMatrix"),
        *("Tree", "Loss", "Cached"),
    )
)
"""How skops may build what it reads."""

_SCHEMA = "schema.json"


def dump_estimator(estimator: Any, name: str) -> bytes:
    """Return a fitted estimator as bytes that :func:`load_estimator` takes, or say that it has none.

    The message calls it ``name``.
    """
    skops = import_needed("skops.io", "saving scikit-learn's estimators", "trees")
    try:
        data = _renumber(skops.dumps(estimator))
        load_estimator(data)
    except MissingDependencyError:
        raise
    except Exception as error:  # skops has no root of its own for what it cannot write
        raise ModelFileError(
            f"a {name} cannot be stored without pickle ({error}); save with learners=False to keep the "
            "predictions for this graph, or use BoostedTrees() or MLP()."
        ) from error
    return data


def load_estimator(data: bytes) -> Any:
    """Return the estimator of :func:`dump_estimator`; other bytes are a :class:`ModelFileError`."""
    skops = import_needed("skops.io", "loading scikit-learn's estimators", "trees")
    try:
        _check_archive(data)
        estimator = skops.loads(data, trusted=list(TRUSTED))
        _check_trees(estimator)
    except ModelFileError:
        raise
    except Exception as error:  # whatever forged bytes lead to
        raise ModelFileError(f"these are not the bytes of an estimator: {error}") from error
    return estimator


def _renumber(data: bytes) -> bytes:
    """Return an archive whose objects are numbered as they come, so that equal estimators are equal bytes.

    skops numbers them by where they were in memory, and its archives have dates. Arrays of records may have
    gaps between fields, with whatever was there before.
    """
    numbers: dict[str, int] = {}

    def number(found: Any) -> int:
        return numbers.setdefault(str(found), len(numbers))

    def rename(file: str) -> str:
        stem, dot, suffix = file.partition(".")
        return f"{number(stem)}{dot}{suffix}"

    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    schema = json.loads(members.pop(_SCHEMA))
    for node in _nodes(schema):
        if "__id__" in node:
            # Numbers and text may be one object or several, which is of no account.
            is_value = node["__loader__"] == "JsonNode"
            node["__id__"] = number(f"value {len(numbers)}" if is_value else node["__id__"])
        if "file" in node:
            node["file"] = rename(node["file"])
    named = {rename(name): _fill_gaps(content) for name, content in members.items()}
    result = io.BytesIO()
    with zipfile.ZipFile(result, "w", zipfile.ZIP_STORED) as archive:
        for name, content in [*sorted(named.items()), (_SCHEMA, json.dumps(schema).encode())]:
            archive.writestr(zipfile.ZipInfo(name), content)  # of 1980, as all of them
    return result.getvalue()


def _fill_gaps(file: bytes) -> bytes:
    """Return an array's file with zeros between the fields of records; any other file as it is."""
    if not file.startswith(np.lib.format.MAGIC_PREFIX):
        return file
    array = np.load(io.BytesIO(file), allow_pickle=False)
    if array.dtype.names is None:
        return file
    filled = np.zeros(array.shape, array.dtype, "F" if array.flags.fnc else "C")
    for name in array.dtype.names:
        filled[name] = array[name]
    return file[: -array.nbytes] + filled.tobytes("A")


def as_tensor(data: bytes) -> torch.Tensor:
    """Return bytes as a tensor, which a model file can hold."""
    return torch.from_numpy(np.frombuffer(data, dtype=np.uint8).copy())


def as_bytes(tensor: torch.Tensor) -> bytes:
    """Return the bytes of :func:`as_tensor`."""
    if tensor.dtype != torch.uint8 or tensor.ndim != 1:
        raise ValueError(f"bytes have the type {tensor.dtype} and {tensor.ndim} axes")
    return tensor.cpu().numpy().tobytes()


def _check_archive(data: bytes) -> None:
    """Raise unless types and ways of building are ours, and nothing is larger than its bytes."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if any(member.compress_type != zipfile.ZIP_STORED for member in archive.infolist()):
            raise ModelFileError("the archive of an estimator is compressed, which gbgnn never writes.")
        schema = json.loads(archive.read(_SCHEMA))
    for node in _nodes(schema):
        kind, loader = f"{node['__module__']}.{node['__class__']}", node["__loader__"]
        is_ours = kind in TRUSTED or kind.partition(".")[0] in PACKAGES
        if not is_ours or kind.startswith(REFUSED) or loader not in LOADERS:
            raise ModelFileError(
                f"it holds a {kind} (read by {loader}), which is not among the types that gbgnn trusts."
            )


def _nodes(schema: Any) -> Iterator[dict[str, Any]]:
    """Yield every table of a schema that stands for an object."""
    waiting = [schema]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if "__class__" in each or "__loader__" in each:
                yield each
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each


def _check_trees(estimator: Any) -> None:
    """Raise unless the children of every node are nodes after it, and it looks at a column that is there."""
    for owner_columns, tree in _trees(estimator):
        if hasattr(tree, "children_left"):
            left, right, is_leaf = tree.children_left, tree.children_right, tree.children_left == -1
            feature, n_columns = tree.feature, min(owner_columns, tree.n_features)
        else:
            nodes = tree.nodes
            left, right, is_leaf = nodes["left"], nodes["right"], nodes["is_leaf"] == 1
            feature, n_columns = nodes["feature_idx"], owner_columns
            check_bitsets(tree)
        check_children(left, right, feature, is_leaf, n_columns)


def check_categories(boosted: Any) -> None:
    """Raise unless a HistGradientBoosting knows the categories of every column that its trees split by."""
    columns = np.flatnonzero(boosted._bin_mapper.is_categorical_)
    _, places = boosted._bin_mapper.make_known_categories_bitsets()
    if len(places) != boosted.n_features_in_:
        raise ValueError("the bins of its trees are those of other columns")
    for tree in (tree for grown in boosted._predictors for tree in grown):
        nodes = tree.nodes
        asked = nodes["feature_idx"][(nodes["is_categorical"] == 1) & (nodes["is_leaf"] == 0)]
        if not np.isin(asked, columns).all():
            raise ValueError("a tree asks for the categories of a column of numbers")


def check_bitsets(tree: Any) -> None:
    """Raise unless every split by category of a tree of HistGradientBoosting has its set."""
    nodes, bitsets = tree.nodes, tree.raw_left_cat_bitsets
    if nodes.ndim != 1 or bitsets.ndim != 2 or bitsets.shape[1] != 8:
        raise ValueError("arrays of a tree have the wrong shape")
    used = nodes["bitset_idx"][(nodes["is_categorical"] == 1) & (nodes["is_leaf"] == 0)]
    if len(used) and used.max() >= len(bitsets):
        raise ValueError("a tree asks for categories that are not there")


def _trees(value: Any) -> Iterator[tuple[int, Any]]:
    """Yield all trees in a value, each with the number of columns that its owners are handed at least."""
    waiting, seen = [(value, np.iinfo(np.int64).max)], set()
    while waiting:
        each, n_columns = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        if type(each).__name__ in ("Tree", "TreePredictor"):
            yield n_columns, each
        elif isinstance(each, dict):
            waiting += [(inner, n_columns) for inner in each.values()]
        elif isinstance(each, (list, tuple, set)):
            waiting += [(inner, n_columns) for inner in each]
        elif isinstance(each, np.ndarray):
            waiting += [(inner, n_columns) for inner in each.flat] if each.dtype == object else []
        elif hasattr(each, "__dict__") and not isinstance(each, type):
            if "_predictors" in vars(each):
                check_categories(each)
            fewest = min(n_columns, int(vars(each).get("n_features_in_", n_columns)))
            waiting += [(inner, fewest) for inner in vars(each).values()]
