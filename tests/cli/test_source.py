from __future__ import annotations

from pathlib import Path

import pytest

from gbgnn.cli.command import UsageError
from gbgnn.cli.source import DataOptions, Source

NODES = "who,churn,calls,age\n" + "".join(f"p{i},{i % 2},{i % 3},{20 + i}\n" for i in range(30))
EDGES = "caller,callee\n" + "".join(f"p{i},p{(i * 7 + 1) % 30}\n" for i in range(30))


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    monkeypatch.chdir(tmp_path)
    Path("people.csv").write_text(NODES)
    Path("calls.csv").write_text(EDGES)
    return Path("people.csv"), Path("calls.csv")


def _people(files: tuple[Path, Path], **options: str) -> Source:
    return DataOptions(nodes=files[0], edges=[files[1]], target="churn", **options).apply(Source())


def test_tables_are_read_by_the_readers_names(files: tuple[Path, Path]) -> None:
    source = _people(files, features="calls,3", drop="age", task="classification")
    assert source.options == {
        "label": "churn",
        "features": ["calls", 3],
        "drop": ["age"],
        "task": "classification",
    }
    data = source.load()
    assert (data.name, data.graph.n_features, data.n_classes) == ("people", 1, 2)
    assert data.notes[0] == "ids are column 'who' of people.csv"
    assert source.load_graph().checksum == data.graph.checksum


def test_tables_are_recorded_in_full_and_read_back(files: tuple[Path, Path], tmp_path: Path) -> None:
    document = _people(files, weight="none", destination="1", source="0").to_document()
    assert document["nodes"] == str(tmp_path / "people.csv")
    assert document["edges"] == [str(tmp_path / "calls.csv")]
    again = Source.from_document(document, "x")
    assert again.load().graph.n_nodes == 30
    assert again.reader_options()["weight"] is None
    table = Source(nodes="a.duckdb::people", edges=["a.duckdb::calls"]).to_document()
    assert table["nodes"] == f"{tmp_path / 'a.duckdb'}::people"


def test_other_tables_have_the_same_columns_and_other_data_has_not(files: tuple[Path, Path]) -> None:
    source = _people(files, task="classification")
    other = source.override(nodes=files[0], edges=[files[1]])
    assert other.options == {"label": "churn"}
    assert source.override("karate").options == {}
    Path("folder").mkdir()
    Path("folder/nodes.csv").write_text(NODES)
    Path("folder/edges.csv").write_text(EDGES)
    folder = source.override("folder")
    assert (folder.nodes, folder.options) == (None, {"label": "churn"})
    assert folder.load_graph().n_features == 2
    assert DataOptions(dataset="folder", target="churn").apply(Source()).load().n_classes == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": Path("n.csv")}, "a node table needs an edge table"),
        ({"edges": [Path("e.csv")]}, "a node table needs an edge table"),
        ({"dataset": "karate", "nodes": Path("n.csv"), "edges": [Path("e.csv")]}, "not both"),
        ({"dataset": "karate", "target": "club", "drop": "a"}, "--target, --drop is about columns of tables"),
        ({"destination": "to"}, "--destination is about .*, not the embedded digits"),
        (
            {"dataset": "karate", "setting": "RH"},
            "--setting is for a folder of GraphLand's, .* not for karate",
        ),
        (
            {"dataset": "karate", "task": "regression"},
            "--task is for data of your own; karate has its classes",
        ),
    ],
)
def test_options_that_do_not_go_together_are_named(options: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        DataOptions(**options).apply(Source())
