"""What the fuzzer attacks: for every reader a way to make an input that is nearly right, and to use it.

A target writes a case into a folder and returns what reads it. That either raises an error of gbgnn's own, or
returns something which :func:`check_data` or :func:`check_model` finds in order.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pickle
import pickletools
import random
import warnings
import zipfile
from collections import defaultdict
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any

import hostile
import numpy as np
import scipy.sparse as sp
import torch

import gbgnn
from gbgnn import MLP, GBGNNClassifier, GBGNNRegressor, Graph, datasets
from gbgnn.errors import GBGNNError
from gbgnn.settings import nest_settings, read_settings

Random = random.Random
Target = Callable[[Random, Path], Callable[[], Any]]
N = 24


class Wrong(AssertionError):  # noqa: N818 it is a verdict
    """Something was accepted that should not have been."""


def check_data(data: datasets.Dataset) -> str:
    """Raise unless a data set that was read holds what every data set does, and can be trained on."""
    graph, n = data.graph, data.graph.n_nodes
    A = graph.adjacency
    A.check_format(full_check=True)
    X = graph.features
    _must(np.isfinite(A.data).all() and np.isfinite(X.data if sp.issparse(X) else X).all(), "not finite")
    _must(len(data.y) == n and len(np.unique(graph.node_ids)) == n, "labels or ids do not fit")
    parts = np.concatenate([data.train, data.val, data.test])
    _must(
        len(np.unique(parts)) == len(parts) and (len(parts) == 0 or 0 <= parts.min() <= parts.max() < n),
        "split",
    )
    if n <= 2000 and graph.n_features <= 2000:
        kind = GBGNNRegressor if data.is_regression else GBGNNClassifier
        model = kind(n_rounds=1, learner=MLP(epochs=1, units=2), preset="fast", random_state=0)
        try:
            model.fit(data.train, data.y[data.train], graph=graph)
        except GBGNNError:
            return "read, not trainable"
        check_model(model, None)
    return "accepted"


def check_model(model: Any, graph: Graph | None) -> str:
    """Raise unless a model predicts something for every node it knows, and for those of a graph."""
    for where in (None, graph) if graph is not None else (None,):
        try:
            nodes = np.arange(len(model.model_.score_tensor) if where is None else where.n_nodes)
            found = model.model_.predict_all(nodes, graph=where)
        except GBGNNError:
            continue
        if "predict_proba" in found:
            proba = found["predict_proba"]
            _must(np.isfinite(proba).all() and (proba >= 0).all(), "probabilities are none")
            _must(
                proba.ndim != 2
                or model.model_.task.has_classes is False
                or np.allclose(proba.sum(1), 1, atol=1e-3),
                "sums",
            )
        elif found["predict"].dtype.kind == "f":
            _must(np.isfinite(found["predict"]).all(), "predictions are not finite")
    return "accepted"


def _must(is_so: Any, what: str) -> None:
    if not is_so:
        raise Wrong(what)


def _arrays() -> dict[str, Any]:
    rng = np.random.default_rng(0)
    A = sp.csr_array((rng.random((N, N)) < 0.15).astype(np.float32))
    A = sp.csr_array(A.maximum(A.T))
    split = np.arange(N) % 3
    return {
        "indptr": A.indptr,
        "indices": A.indices,
        "data": A.data,
        "x": (rng.normal(size=(N, 3)) + 3 * (np.arange(N) % 2)[:, None]).astype(np.float32),
        "y": np.arange(N) % 2,
        "train_mask": split == 0,
        "val_mask": split == 1,
        "test_mask": split == 2,
        "node_names": np.array([f"n{i}" for i in range(N)]),
        "class_names": np.array(["a", "b"]),
    }


def npz(rng: Random, folder: Path) -> Callable[[], Any]:
    """Arrays of other shapes, types, values and names; headers that lie; archives that are damaged."""
    arrays = _arrays()
    shape = rng.randrange(4)
    if shape == 1:
        coo = sp.csr_array((arrays.pop("data"), arrays.pop("indices"), arrays.pop("indptr"))).tocoo()
        arrays[rng.choice(["edges", "edge_index"])] = np.stack(coo.coords, axis=rng.randrange(2))
    elif shape == 2:
        arrays |= {f"adj_{k}": arrays.pop(k) for k in ("data", "indices", "indptr")} | {"adj_shape": [N, N]}
        X = sp.csr_array(arrays.pop("x"))
        arrays |= {
            "attr_data": X.data,
            "attr_indices": X.indices,
            "attr_indptr": X.indptr,
            "attr_shape": X.shape,
        }
    elif shape == 3:
        arrays |= {"train_idx": np.arange(8), "test_idx": np.arange(8, 16)}
        arrays |= {"train_mask": np.stack([arrays["train_mask"]] * 2)} if rng.random() < 0.5 else {}
    for _ in range(rng.choice([0, 1, 1, 2])):
        name = rng.choice(list(arrays))
        if rng.random() < 0.15:
            del arrays[name]
        elif rng.random() < 0.1:
            arrays[rng.choice(list(arrays))] = arrays[name]
        else:
            arrays[name] = hostile.mutate_array(arrays[name], rng)
    path = folder / "g.npz"
    rng.choice([np.savez, np.savez_compressed])(path, **arrays)
    if rng.random() < 0.2:
        with zipfile.ZipFile(path) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        name = rng.choice(list(members))
        members[name] = rng.choice([_lie, hostile.mutate_bytes])(members[name], rng)
        with zipfile.ZipFile(
            path, "w", rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA])
        ) as out:
            for each, content in members.items():
                out.writestr(each, content)
    if rng.random() < 0.3:
        path.write_bytes(hostile.mutate_bytes(path.read_bytes(), rng))
    options = {
        "split": rng.choice([None, 0, 1, "stratified", "random", 10**9]),
        "task": rng.choice([None, None, "regression"]),
    }
    return lambda: check_data(datasets.read_npz(path, **options))


def _lie(content: bytes, rng: Random) -> bytes:
    """Return an array whose header says another shape or type."""
    old, new = rng.choice(
        [
            (b"(24,", b"(10000000000000,"),
            (b"(24,", b"(-1,"),
            (b"<f4", b"<f8"),
            (b"<f4", b"|O8"),
            (b"<i8", b"|O8"),
            (b"(24,", b"(24,24,"),
            (b"<i4", b"<U99999999"),
            (b"False", b"True"),
        ]
    )
    return content.replace(old, new)


def gbgraph(rng: Random, folder: Path) -> Callable[[], Any]:
    """Change the folder's description and its arrays; files that are pipes, links, missing."""
    home = datasets.save_dataset(_small(), folder / "g.gbgraph")
    if rng.random() < 0.6:
        meta = json.loads((home / "meta.json").read_text())
        (home / "meta.json").write_text(json.dumps(hostile.mutate_document(meta, rng)))
    if rng.random() < 0.6:
        path = rng.choice(sorted(home.glob("*.npy")))
        array = np.load(path)
        change = rng.randrange(6)
        if change == 0:
            path.write_bytes(hostile.mutate_bytes(path.read_bytes(), rng))
        elif change == 1:
            path.write_bytes(_lie(path.read_bytes(), rng))
        elif change == 2:
            path.unlink()
            rng.choice(
                [lambda: None, path.mkdir, lambda: os.mkfifo(path), lambda: path.symlink_to("/dev/zero")]
            )()
        else:
            changed = hostile.mutate_array(array, rng)
            np.save(path, changed)
            if rng.random() < 0.8:
                meta = json.loads((home / "meta.json").read_text())
                if isinstance(meta, dict) and isinstance(meta.get("arrays"), dict):
                    meta["arrays"][path.stem] = [str(changed.dtype), list(changed.shape)]
                    (home / "meta.json").write_text(json.dumps(meta))
    return lambda: check_data(datasets.load_dataset(home))


@cache
def _small() -> datasets.Dataset:
    arrays = _arrays()
    A = sp.csr_array((arrays["data"], arrays["indices"], arrays["indptr"]))
    split = gbgnn.NodeSplit.from_masks(*(arrays[f"{part}_mask"] for part in ("train", "val", "test")))
    return datasets.Dataset("small", Graph(A, arrays["x"]), arrays["y"], split)


_NODES = "id,label,split,age,town\n" + "".join(
    f"n{i},{'ab'[i % 2]},{('train', 'val', 'test')[i % 3]},{i * 0.5},{'xyz'[i % 3]}\n" for i in range(N)
)
_EDGES = "source,target,weight\n" + "".join(f"n{i},n{(i * 7 + 1) % N},{1 + i % 3}\n" for i in range(N))


def _options(rng: Random) -> dict[str, Any]:
    names = ["label", "age", "town", "id", "split", "weight", 0, 1, 2, 99, -1, "nothing"]
    known = {
        "label": lambda: rng.choice(names),
        "id": lambda: rng.choice(names),
        "weight": lambda: rng.choice(names),
        "features": lambda: rng.sample(names, 2),
        "drop": lambda: rng.sample(names, 1),
        "source": lambda: rng.choice(names),
        "task": lambda: rng.choice(["classification", "regression"]),
        "directed": lambda: True,
        "split": lambda: rng.choice(["stratified", "random", "town", "age", 3, "uniform"]),
        "seed": lambda: rng.choice([1, -1, 2**70]),
    }
    return {name: known[name]() for name in hostile.pick(rng, list(known), 2)} if rng.random() < 0.5 else {}


def csv(rng: Random, folder: Path) -> Callable[[], Any]:
    """Cells, columns and rows that are changed; quotes, delimiters and encodings."""
    nodes, edges = folder / "nodes.csv", folder / "edges.csv"
    for path, text in ((nodes, _NODES), (edges, _EDGES)):
        text = hostile.mutate_text(text, rng) if rng.random() < 0.6 else text
        data = text.replace(",", rng.choice([",", ",", ",", "\t", ";"])).encode(
            rng.choice(["utf-8"] * 6 + ["utf-16", "utf-8-sig", "latin1"]), "replace"
        )
        path.write_bytes(hostile.mutate_bytes(data, rng) if rng.random() < 0.2 else data)
    options = _options(rng)
    return lambda: check_data(datasets.read_tables(edges, nodes, **options))


def arrow(rng: Random, folder: Path) -> Callable[[], Any]:
    """Parquet and Feather with columns of every type, gaps, and damaged bytes."""
    import pyarrow as pa
    from pyarrow import feather, parquet

    suffix = rng.choice([".parquet", ".parquet", ".feather"])
    paths = []
    for name, text in (("edges", _EDGES), ("nodes", _NODES)):
        header, *rows = [line.split(",") for line in text.splitlines()]
        columns = {key: list(cells) for key, cells in zip(header, zip(*rows, strict=True), strict=True)}
        if "age" in columns:
            columns["age"] = [float(cell) for cell in columns["age"]]
        else:
            columns["weight"] = [float(cell) for cell in columns["weight"]]
        table = pa.table(columns)
        for _ in range(rng.choice([0, 0, 1, 1, 2])):
            place = rng.randrange(table.num_columns)
            kind = rng.choice(
                [
                    pa.int8(),
                    pa.float16(),
                    pa.binary(),
                    pa.list_(pa.int64()),
                    pa.timestamp("s"),
                    pa.null(),
                    pa.decimal128(5, 2),
                    pa.bool_(),
                    pa.duration("s"),
                    pa.dictionary(pa.int8(), pa.string()),
                    pa.struct([("a", pa.int64())]),
                    pa.date32(),
                    pa.uint64(),
                    pa.large_string(),
                ]
            )
            old = table.column(place).to_pylist()
            try:
                fresh = pa.array(old).cast(kind) if rng.random() < 0.5 else pa.array([None] * len(old), kind)
            except (pa.ArrowException, NotImplementedError):
                fresh = pa.array([hostile.odd_scalar(rng)] * len(old))
            label = rng.choice([table.column_names[place]] * 9 + [*table.column_names, "", "é\x1b"])
            table = table.set_column(place, label, fresh)
        table = table.slice(0, rng.choice([table.num_rows] * 5 + [0, 1]))
        table = table.select([]) if rng.random() < 0.03 else table
        path = folder / f"{name}{suffix}"
        (parquet.write_table if suffix == ".parquet" else feather.write_feather)(table, path)
        if rng.random() < 0.25:
            path.write_bytes(hostile.mutate_bytes(path.read_bytes(), rng))
        paths.append(path)
    options = _options(rng)
    return lambda: check_data(datasets.read_tables(*paths, **options))


def planetoid(rng: Random, folder: Path) -> Callable[[], Any]:
    """Pickles of other values, with other instructions, and damaged bytes; node numbers far out."""
    eye = np.eye(2, dtype=np.int32)
    parts: dict[str, Any] = {
        "x": sp.csr_matrix(np.eye(4, 3)),
        "y": eye[[0, 1, 0, 1]],
        "tx": sp.csr_matrix(np.eye(3)),
        "ty": eye[[0, 1, 1]],
        "allx": sp.csr_matrix(np.eye(10, 3) + np.eye(10, 3, -5)),
        "ally": eye[np.arange(10) % 2],
        "graph": defaultdict(list, {i: [(i + 1) % 13, (i * 5) % 13] for i in range(13)}),
    }
    name = rng.choice(list(parts))
    change, whole = rng.randrange(5), {k: pickle.dumps(v, 4) for k, v in parts.items()}
    if change == 0:
        value = parts[name]
        if isinstance(value, np.ndarray):
            value = hostile.mutate_array(value, rng)
        elif sp.issparse(value):
            part = rng.choice(["data", "indices", "indptr", "_shape"])
            setattr(value, part, hostile.mutate_array(np.array(getattr(value, part)), rng))
        else:
            value[rng.choice([0, 5, 99, -1, "a"])] = rng.choice(
                [[99], [-1], 3, ["a"], [10**30], [[1]], None, [0.5]]
            )
        whole[name] = pickle.dumps(value, rng.choice([0, 1, 2, 4, 5]))
    elif change == 1:
        whole[name] = hostile.mutate_bytes(whole[name], rng)
    elif change == 2:
        whole[name] = _mutate_steps(whole[name], rng)
    elif change == 3:
        whole[name] = pickle.dumps(hostile.odd_value(rng), rng.randrange(5))
    for each, content in whole.items():
        (folder / f"ind.t.{each}").write_bytes(content)
    index = "12\n10\n11\n"
    text = hostile.mutate_text(index, rng) if change == 4 else index
    (folder / "ind.t.test.index").write_text(text, encoding="utf-8")
    return lambda: check_data(datasets.read_planetoid(folder, "t"))


def _mutate_steps(content: bytes, rng: Random) -> bytes:
    """Return a pickle with instructions left out, repeated, swapped or made up."""
    places = [place for _, _, place in pickletools.genops(content)]
    steps = [content[a:b] for a, b in zip(places, [*places[1:], len(content)], strict=True)]
    made = [
        b"0",
        b"2",
        b"(",
        b"t",
        b"R",
        b"b",
        b"N",
        b"}",
        b"]",
        b"a",
        b"s",
        b"\x81",
        b"cos\nsystem\n",
        b"cnumpy\ndtype\n",
        b"r\xff\xff\xff\x7f",
        b"j\xff\xff\xff\x7f",
        b"X\xff\xff\xff\x7f",
        b"\x8f",
        b"K\x05",
        b"U\x02O8",
        b"P1\n",
    ]
    for _ in range(rng.choice([1, 1, 2, 5])):
        place = rng.randrange(len(steps))
        change = rng.randrange(4)
        if change == 0:
            del steps[place]
        elif change == 1:
            steps.insert(place, rng.choice(steps))
        elif change == 2:
            steps.insert(place, rng.choice(made))
        else:
            steps[place] = rng.choice(made)
        if not steps:
            break
    return b"".join(steps)


def graphland(rng: Random, folder: Path) -> Callable[[], Any]:
    """Change cells of the tables of GraphLand, of their description and masks."""
    rows = range(N)
    files = {
        "edgelist.csv": "source,target\n" + "".join(f"{i},{(i * 7 + 1) % N}\n" for i in rows),
        "features.csv": "node_id,age,rate,town\n" + "".join(f"{i},{i},{i / N},{i % 3}\n" for i in rows),
        "targets.csv": "node_id,t\n" + "".join(f"{i},{i % 2}\n" for i in rows),
        "split_masks_RL.csv": "node_id,train,val,test\n"
        + "".join(f"{i},{i % 3 == 0},{i % 3 == 1},{i % 3 == 2}\n" for i in rows),
        "info.yaml": "task: binary_classification\ntarget_name: t\nnumerical_features_names: [age, rate]\n"
        "fraction_features_names: [rate]\ncategorical_features_names:\n- town\n",
    }
    for name in rng.sample(list(files), rng.choice([1, 1, 2])):
        files[name] = hostile.mutate_text(files[name], rng)
    for name, text in files.items():
        data = text.encode("utf-8", "replace")
        (folder / name).write_bytes(hostile.mutate_bytes(data, rng) if rng.random() < 0.1 else data)
    setting = rng.choice([None, None, "RL", "RH", "THI"])
    return lambda: check_data(datasets.load_graphland(folder, setting))


@cache
def _models() -> list[tuple[bytes, Graph]]:
    """Return models of every kind that a file can hold, as bytes, each with a graph to predict."""
    small, table = (
        _small(),
        {"age": [i * 0.5 if i % 5 else None for i in range(N)], "town": ["xyz"[i % 3] for i in range(N)]},
    )
    graph, frame = small.graph, Graph(small.graph.adjacency, table)
    nodes, quick = np.arange(16), MLP(epochs=20, units=4)
    kinds: list[tuple[Any, Graph]] = [
        (GBGNNClassifier(learner=quick, preset="fast"), graph),
        (GBGNNClassifier(learner=quick, aggregation="kta", rule="samme_r", preset="fast"), graph),
        (
            GBGNNClassifier(learner=quick, aggregation="linear", rule="samme", fine_tune=True, preset="fast"),
            graph,
        ),
        (GBGNNClassifier(learner="trees", preset="fast"), frame),
        (GBGNNClassifier(learner=gbgnn.GraphNetwork(epochs=4), preset="fast"), graph),
        (GBGNNClassifier(learner=quick, aggregation="beside", preset="fast"), frame),
        (GBGNNClassifier(learner=quick, propagation=graph.adjacency, preset="fast"), graph),
        (GBGNNRegressor(learner=quick, preset="fast"), frame),
        (GBGNNClassifier(learner=gbgnn.ConsistentNetwork(epochs=4), preset="fast"), graph),
    ]
    found = []
    for model, own in kinds:
        with warnings.catch_warnings(action="ignore"):
            y = np.linspace(0, 1, 16) if isinstance(model, GBGNNRegressor) else small.y[nodes]
            model.set_params(n_rounds=2, random_state=0).fit(nodes, y, graph=own)
            path = Path(os.environ.get("TMPDIR", "/tmp"), f"fuzz-{os.getpid()}.gbgnn")
            model.save(path)
        found.append((path.read_bytes(), own))
        path.unlink()
    return found


def model_bytes(rng: Random, folder: Path) -> Callable[[], Any]:
    """Model files with damaged bytes."""
    content, graph = rng.choice(_models())
    path = folder / "m.gbgnn"
    path.write_bytes(hostile.mutate_bytes(content, rng))
    return lambda: check_model(gbgnn.load(path), graph)


def model_forged(rng: Random, folder: Path) -> Callable[[], Any]:
    """Model files with another header or other tensors, and a checksum that is right."""
    from safetensors.torch import load, save_file

    from gbgnn.persistence import _digest

    content, graph = rng.choice(_models())
    n = int.from_bytes(content[:8], "little")
    header = json.loads(json.loads(content[8 : 8 + n])["__metadata__"]["gbgnn"])
    tensors = load(content)
    if rng.random() < 0.7:
        header = hostile.mutate_document(header, rng)
    if rng.random() < 0.5:
        name = rng.choice(sorted(tensors))  # safetensors has no order of its own
        change = rng.randrange(6)
        if change == 0:
            del tensors[name]
        elif change == 1:
            tensors[rng.choice([*sorted(tensors), "new"])] = tensors[name].clone()
        else:
            try:
                array = hostile.mutate_array(tensors[name].numpy(), rng)
                tensors[name] = torch.from_numpy(np.ascontiguousarray(array)).clone()
            except (TypeError, ValueError):  # what torch has no type for
                tensors[name] = torch.zeros(0)
    text = json.dumps(header)
    text = "[" * 10**5 if rng.random() < 0.005 else text
    path = folder / "m.gbgnn"
    save_file(tensors, path, metadata={"gbgnn": text, "sha256": _digest(text, tensors)})
    if rng.random() < 0.2:
        return partial(command_line_of, ["inspect", str(path)])
    return lambda: check_model(gbgnn.load(path), graph)


_PLAIN = {"preset": "fast", "n_rounds": 1, "learner": {"name": "mlp", "epochs": 15, "units": 4}}


@cache
def _documents() -> list[dict[str, Any]]:
    kinds = [
        GBGNNClassifier(),
        GBGNNClassifier(aggregation="kta", rule="samme"),
        GBGNNClassifier(fine_tune=True, rule="samme_r"),
    ]
    found = []
    for model in kinds:
        document = nest_settings(read_settings(model))
        document = {
            k: {a: b for a, b in v.items() if b is not None} if isinstance(v, dict) else v
            for k, v in document.items()
        }
        document = {k: v for k, v in document.items() if v is not None} | {"n_rounds": 1, "preset": "fast"}
        document["learner"] |= {"epochs": 15, "units": 4}
        if isinstance(document.get("fine_tune"), dict):
            document["fine_tune"] |= {"epochs": 1}
        found.append(document)
    return found


def config(rng: Random, folder: Path) -> Callable[[], Any]:
    """Change settings in a TOML file for ``gbgnn fit``."""
    data = {
        "dataset": "csbm",
        "split_seed": 0,
        "normalize": False,
        "options": {"n_nodes": 60, "per_class": 6},
    }
    document = {**rng.choice([_PLAIN, *_documents()]), "data": data}
    return _with_toml(
        rng, folder, document, ["fit", "--config", str(folder / "c.toml"), "--out", str(folder / "r")]
    )


def space(rng: Random, folder: Path) -> Callable[[], Any]:
    """Spaces of a search in a TOML file, for ``gbgnn tune``."""
    ranges = {
        "n_rounds": {"low": 1, "high": 2},
        "learner": {"units": [4, 5], "epochs": 15, "learning_rate": {"low": 0.01, "high": 0.1, "log": True}},
    }
    words = [
        "tune",
        "csbm",
        "--data-option",
        "n_nodes=60",
        "--data-option",
        "per_class=6",
        "--trials",
        "1",
        "--space",
        str(folder / "c.toml"),
        "--out",
        str(folder / "r"),
    ]
    return _with_toml(rng, folder, {"space": ranges}, words)


def _with_toml(rng: Random, folder: Path, document: dict[str, Any], words: list[str]) -> Callable[[], Any]:
    import tomli_w

    path = folder / "c.toml"
    changed = hostile.mutate_document(document, rng, large=False)
    try:
        text = tomli_w.dumps(changed)
    except (TypeError, ValueError, AttributeError):
        text = tomli_w.dumps({"a": json.dumps(changed)})
    data = text.encode("utf-8", "replace")
    path.write_bytes(hostile.mutate_bytes(data, rng) if rng.random() < 0.1 else data)
    return partial(command_line_of, words)


def command_line_of(words: list[str]) -> str:
    """Run a command in this process; raise unless it ends as it should and says nothing that steers."""
    from typer.testing import CliRunner

    from gbgnn.cli.app import app

    result = CliRunner().invoke(app, words, prog_name="gbgnn")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    told = result.stdout + result.stderr
    _must("Traceback" not in told and result.exit_code in (0, 1, 2), f"exit code {result.exit_code}")
    _must("\x1b[31mred" not in told and "\u202e" not in told, "what was given steers the terminal")
    return "accepted" if result.exit_code == 0 else "refused"


_SLOW = {
    "n_rounds",
    "learner__epochs",
    "fine_tune__epochs",
    "aggregation__epochs",
    "aggregation__degree",
    "n_trials",
    "preset",
}


def command_line(rng: Random, folder: Path) -> Callable[[], Any]:
    """Options of every command with values of every kind."""
    from typer.main import get_command

    from gbgnn.cli.app import app
    from gbgnn.cli.model_options import make_options

    name = rng.choice(
        ["fit"] * 6 + ["predict", "evaluate", "inspect", "export", "certify", "smoothing", "convert", "tune"]
    )
    command = get_command(app).commands[name]
    params = list(command.params) + (make_options() if name in ("fit", "tune") else [])
    words = [name]
    (folder / "m.gbgnn").write_bytes(_models()[0][0])
    (folder / "nodes.csv").write_text(_NODES)
    (folder / "edges.csv").write_text(_EDGES)
    own = {
        "fit": [
            "--nodes",
            folder / "nodes.csv",
            "--edges",
            folder / "edges.csv",
            "--preset",
            "fast",
            "--rounds",
            "1",
        ],
        "tune": [
            "csbm",
            "--data-option",
            "n_nodes=60",
            "--data-option",
            "per_class=6",
            "--trials",
            "1",
            "--rounds",
            "1",
        ],
        "convert": [folder / "edges.csv", folder / "nodes.csv", folder / "o.gbgraph"],
        "smoothing": ["karate"],
    }
    words += map(str, own.get(name, [folder / "m.gbgnn"]))
    for option in rng.sample(params, rng.choice([0, 1, 1, 2])):
        if option.name in _SLOW or not option.opts[0].startswith("-") or option.name in ("help", "out"):
            continue
        value = rng.choice(
            [
                *hostile.SMALL,
                *hostile.FLOATS,
                *hostile.TEXTS,
                10**30,
                folder,
                folder / "nodes.csv",
                "karate",
                "a=1",
            ]
        )
        words += [option.opts[0]] + ([] if getattr(option, "is_flag", False) else [str(value)])
    if name in ("fit", "tune"):
        words += ["--out", str(folder / "r")]
    elif rng.random() < 0.3:
        words.append(rng.choice(hostile.TEXTS))
    return partial(command_line_of, words)


def arguments(rng: Random, folder: Path) -> Callable[[], Any]:
    """Arguments of Graph, of estimators and of fit, of every kind."""
    arrays = _arrays()
    A = sp.csr_array((arrays["data"], arrays["indices"], arrays["indptr"]))
    given: dict[str, Any] = {
        "A": A,
        "X": arrays["x"],
        "nodes": np.arange(12),
        "y": arrays["y"][:12],
        "settings": {},
        "call": {},
    }
    what = rng.choice(["A", "A", "X", "nodes", "y", "settings", "settings", "call"])
    if what == "settings":
        name = rng.choice(
            [
                k
                for k in GBGNNClassifier().get_params(deep=False)
                if k not in ("n_rounds", "callbacks", "preset", "time_limit")
            ]
        )
        given["settings"] = {name: hostile.odd_value(rng)}
    elif what == "call":
        given["call"] = {"sample_weight": hostile.mutate_array(np.ones(12), rng)}
        if rng.random() < 0.5:
            given["call"] = {
                "validation": rng.choice(
                    [3, (1, 2), (np.arange(12, 16), hostile.mutate_array(arrays["y"][:4], rng))]
                )
            }
    elif what == "A" and rng.random() < 0.7:
        broken = A.asformat(rng.choice(["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])).copy()
        parts = [
            part
            for part in ("data", "indices", "indptr", "offsets")
            if isinstance(getattr(broken, part, None), np.ndarray)
        ]
        if parts:
            part = rng.choice(parts)
            with contextlib.suppress(ValueError, AttributeError, TypeError):
                setattr(broken, part, hostile.mutate_array(getattr(broken, part), rng))
        given["A"] = broken
    else:
        old = given[what].toarray() if what == "A" else given[what]
        given[what] = hostile.mutate_array(old, rng) if rng.random() < 0.8 else hostile.odd_value(rng)

    def use() -> str:
        graph = Graph(given["A"], given["X"])
        quick = {"n_rounds": 1, "learner": MLP(epochs=1, units=2), "preset": "fast", "random_state": 0}
        model = GBGNNClassifier(**quick | given["settings"])
        return check_model(model.fit(given["nodes"], given["y"], graph=graph, **given["call"]), graph)

    return use


TARGETS: dict[str, tuple[Target, int]] = {
    "npz": (npz, 4000),
    "gbgraph": (gbgraph, 3500),
    "csv": (csv, 3500),
    "arrow": (arrow, 1500),
    "planetoid": (planetoid, 4000),
    "graphland": (graphland, 1200),
    "model file, damaged": (model_bytes, 500),
    "model file, forged": (model_forged, 2000),
    "config": (config, 500),
    "space": (space, 150),
    "command line": (command_line, 650),
    "arguments": (arguments, 1000),
}
"""The targets, and how many cases of each make the whole run."""


def prepare(name: str) -> None:
    """Train the models that a target needs, so that no child has to."""
    if name in ("model file, damaged", "model file, forged", "command line"):
        _models()


def seed_of(name: str, seed: int, number: int) -> int:
    """Return the seed of one case, whatever else is run."""
    return int.from_bytes(hashlib.sha256(f"{name} {seed} {number}".encode()).digest()[:8], "big")
