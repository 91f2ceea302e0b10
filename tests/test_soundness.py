"""A forged file with a right checksum is refused when it is read, not when somebody predicts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import gbgnn
from gbgnn import MLP, GBGNNClassifier, Graph
from gbgnn.datasets import karate
from gbgnn.errors import ModelFileError
from gbgnn.persistence import _digest

pytest.importorskip("safetensors")
from safetensors.torch import load, save_file

Change = Callable[[dict[str, Any], dict[str, torch.Tensor]], Any]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    data, path = karate(), tmp_path_factory.mktemp("model") / "m.gbgnn"
    table = {"age": np.arange(34.0), "town": np.array(["x", "y"])[np.arange(34) % 2]}
    graph = Graph(data.graph.adjacency, table)
    model = GBGNNClassifier(n_rounds=2, learner=MLP(epochs=20, units=4), preset="fast", random_state=0)
    model.fit(np.arange(34), data.y, graph=graph).save(path)
    return path.read_bytes()


def forged(whole: bytes, path: Path, change: Change) -> Path:
    n = int.from_bytes(whole[:8], "little")
    header = json.loads(json.loads(whole[8 : 8 + n])["__metadata__"]["gbgnn"])
    tensors = load(whole)
    change(header, tensors)
    text = json.dumps(header)
    save_file(tensors, path, metadata={"gbgnn": text, "sha256": _digest(text, tensors)})
    return path


def put(**values: Any) -> Change:
    return lambda header, tensors: header.update(values)


def tensor(name: str, make: Callable[[torch.Tensor], torch.Tensor]) -> Change:
    return lambda header, tensors: tensors.update({name: make(tensors[name]).clone().contiguous()})


def inside(*path: Any, value: Any) -> Change:
    def change(header: dict[str, Any], tensors: dict[str, torch.Tensor]) -> None:
        owner: Any = header
        for key in path[:-1]:
            owner = owner[key]
        owner[path[-1]] = value

    return change


CASES: dict[str, tuple[Change, str]] = {
    "scores of one axis": (tensor("scores", lambda x: x[:, 0]), "scores are no table"),
    "scores of whole numbers": (tensor("scores", torch.Tensor.long), "scores are no table"),
    "scores that are none": (tensor("scores", lambda x: x * float("nan")), "scores are no table of finite"),
    "scores of more outputs": (tensor("scores", lambda x: x.repeat(1, 3)), "a column for each output"),
    "training nodes far out": (
        tensor("train.nodes", lambda x: x + 10**6),
        "not among those that have scores",
    ),
    "training nodes of floats": (tensor("train.nodes", torch.Tensor.float), "no list of nodes"),
    "fewer targets": (tensor("train.targets", lambda x: x[:-1]), "are not as many"),
    "a round that is not there": (put(best_round=7), "round 7, which predicts, is not among its 2"),
    "round zero": (put(best_round=0), "round 0, which predicts"),
    "an infinite step": (inside("rounds", 0, "eta", value=float("inf")), "not all its steps are finite"),
    "a history of words": (
        inside("history", 0, "train_loss", value="low"),
        "history holds what is no number",
    ),
    "a power of 10**9": (
        inside("rounds", 1, "hop", "record", "powers", value=[10**9]),
        "powers of P that are not",
    ),
    "a negative power": (
        inside("rounds", 1, "hop", "record", "powers", value=[-1]),
        "powers of P that are not",
    ),
    "classes as wide as the memory": (
        inside("task", "record", value={"classes": ["a", "b"], "dtype": "S2000000000"}),
        "classes cannot be",
    ),
    "classes of a table": (inside("task", "record", "classes", value=[[0], [1]]), "classes cannot be"),
    "weights of another shape": (
        tensor("round.1.layers.0.weight", lambda x: x[:, :-1]),
        "its header does not fit",
    ),
    "weights of one axis": (
        tensor("round.1.layers.0.weight", torch.Tensor.ravel),
        "are no layers of a network",
    ),
    "layers that do not follow each other": (
        tensor("round.1.layers.1.weight", lambda x: x[:, :-1]),
        "are no layers of a network",
    ),
    "a column that nothing encodes": (
        inside("inputs", "encoder", "columns", 1, value="7"),
        "columns .'town'. are encoded, but the table has none",
    ),
    "weights of another type": (
        tensor("round.2.layers.1.bias", torch.Tensor.double),
        "its header does not fit",
    ),
    "weights that are none": (
        tensor("round.2.layers.1.weight", lambda x: x / 0),
        "weights of round 2 are not finite",
    ),
    "a category without its column": (
        lambda header, tensors: tensors.update({"encoder.1.places": torch.tensor([0])}),
        "categories of 'town' do not fit",
    ),
    "knots that are none": (tensor("encoder.0.knots", lambda x: x / 0), "numbers of 'age' are not encoded"),
    "knots in any order": (tensor("encoder.0.knots", lambda x: x.flip(0)), "knots in ascending order"),
    "numbers as large as can be": (tensor("encoder.0.outputs", lambda x: x * 1e300), "numbers of 'age'"),
    "a header as deep as the stack": (inside("params", value="x"), "its header does not fit"),
}


def test_the_model_itself_is_sound(whole: bytes, tmp_path: Path) -> None:
    path = forged(whole, tmp_path / "m.gbgnn", lambda header, tensors: None)
    assert gbgnn.load(path).predict(np.arange(34)).shape == (34,)


@pytest.mark.parametrize(("change", "message"), CASES.values(), ids=CASES)
def test_what_does_not_fit_is_said_when_the_file_is_read(
    whole: bytes, tmp_path: Path, change, message
) -> None:
    path = forged(whole, tmp_path / "m.gbgnn", change)
    with pytest.raises(ModelFileError, match=f"is damaged: .*{message}"):
        gbgnn.load(path)


def test_text_classes_are_as_wide_as_they_are(whole: bytes, tmp_path: Path) -> None:
    record = {"classes": ["a", "b"], "dtype": "<U300000000"}
    path = forged(whole, tmp_path / "m.gbgnn", inside("task", "record", value=record))
    assert gbgnn.load(path).classes_.dtype == "<U1"


@pytest.mark.parametrize("text", ["[" * 10**5, '{"format_version": 1e999}', "{}", "3"])
def test_a_header_that_is_none(whole: bytes, tmp_path: Path, text: str) -> None:
    tensors = load(whole)
    save_file(tensors, tmp_path / "m", metadata={"gbgnn": text, "sha256": _digest(text, tensors)})
    with pytest.raises(ModelFileError, match="its header cannot be read"):
        gbgnn.load(tmp_path / "m")
