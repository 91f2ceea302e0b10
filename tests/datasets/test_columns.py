from __future__ import annotations

import sys
import time

import numpy as np
import pytest

from gbgnn.datasets.columns import read_table
from gbgnn.errors import DataError, MissingDependencyError


@pytest.fixture(params=["with pyarrow", "without pyarrow"])
def _either_reader(request, monkeypatch):
    if request.param == "with pyarrow":
        pytest.importorskip("pyarrow")
    else:
        monkeypatch.setitem(sys.modules, "pyarrow", None)


@pytest.mark.usefixtures("_either_reader")
class TestCsv:
    def test_numbers_gaps_and_text_are_told_apart(self, write):
        path = write("t.csv", "id,whole,real,gap,word\n1,1,0.5,,x\n2,2,1e3,4,NA\n")
        columns = read_table(path, text=["id"]).columns
        assert columns["id"].tolist() == [1, 2]
        assert columns["whole"].dtype.kind == "i"
        assert columns["real"].tolist() == [0.5, 1000]
        assert np.isnan(columns["gap"][0])
        assert columns["word"].tolist() == ["x", ""]

    def test_names_keep_their_spelling(self, write):
        path = write("t.csv", "id,label,n\n007,NA,7\n8,a,8\n")
        columns = read_table(path, text=[0, "label"]).columns
        assert columns["id"].tolist() == ["007", "8"]
        assert columns["label"].tolist() == ["NA", "a"]

    def test_tabs_byte_order_marks_quotes_and_blank_lines_are_fine(self, write):
        path = write("t.tsv", '\ufeffid\tname\n1\t"a\tb"\n\n2\tc\n')
        columns = read_table(path, text=["id", "name"]).columns
        assert columns["id"].tolist() == [1, 2]
        assert columns["name"].tolist() == ["a\tb", "c"]

    def test_a_header_alone_has_no_rows(self, write):
        columns = read_table(write("t.csv", "id,x\n"), text=["id"]).columns
        assert [len(cells) for cells in columns.values()] == [0, 0]

    def test_a_ragged_line_is_named(self, write):
        with pytest.raises(DataError, match=r"t\.csv, line 3: 3 cells, but the header names 2 columns"):
            read_table(write("t.csv", "id,x\n1,2\n1,2,3\n"))

    def test_other_encodings_are_refused(self, tmp_path):
        path = tmp_path / "t.csv"
        path.write_bytes("id,x\n1,caf\xe9\n".encode("latin-1"))
        with pytest.raises(DataError, match=r"not .*UTF-8 text"):
            read_table(path)

    def test_dates_stay_text(self, write):
        assert read_table(write("t.csv", "d\n2020-01-02\n")).columns["d"].tolist() == ["2020-01-02"]

    def test_words_with_underscores_are_no_numbers(self, write):
        assert read_table(write("t.csv", "d\n1_0\n")).columns["d"].tolist() == ["1_0"]


def test_huge_whole_numbers_become_floats_not_errors(write, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    columns = read_table(write("t.csv", f"a,b\n{10**30},{10**30}\n"), text=["b"]).columns
    assert columns["a"].tolist() == [1e30]
    assert columns["b"].tolist() == [str(10**30)]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("t.csv", "", "is empty"),
        ("t.csv", "\n1,2\n", "empty first line"),
        ("t.csv", "a,b,a\n1,2,3\n", "names column 'a' more than once"),
        ("t.xls", "a\n1\n", r"suffix that is not known; use one of \.csv"),
    ],
)
def test_unusable_files_are_refused(name, text, message, write):
    with pytest.raises(DataError, match=message):
        read_table(write(name, text))


def test_a_file_must_be_there(tmp_path):
    with pytest.raises(DataError, match=r"no\.csv is not a file"):
        read_table(tmp_path / "no.csv")


def test_columns_are_found_by_name_or_position(write):
    table = read_table(write("t.csv", "source,target\n1,2\n"))
    assert table.find_column(1, "targets") == "target"
    with pytest.raises(DataError, match=r"no column 'sorce' for the sources. Did you mean 'source'\?"):
        table.find_column("sorce", "sources")
    with pytest.raises(DataError, match=r"no column 2 for the weights\. Columns: source, target"):
        table.find_column(2, "weights")


def test_numbers_names_the_cell_that_is_wrong(write):
    table = read_table(write("t.csv", "a,b,c\n1,,2\nx,1,inf\n"))
    with pytest.raises(DataError, match=r"column 'a' is not numeric \(data row 2: 'x'\)"):
        table.numbers("a", "weights")
    with pytest.raises(DataError, match=r"column 'b' has 1 missing or infinite values \(first: data row 1"):
        table.numbers("b", "weights")
    with pytest.raises(DataError, match=r"column 'c' has 1 missing or infinite values \(first: data row 2"):
        table.numbers("c", "weights")


class TestParquet:
    def test_types_survive(self, tmp_path):
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        table = {
            "id": ["a", "b"],
            "n": [1, None],
            "flag": [True, False],
            "none": pa.nulls(2),
            "kind": pa.array(["u", None]).dictionary_encode(),
        }
        parquet.write_table(pa.table(table), tmp_path / "t.parquet")
        columns = read_table(tmp_path / "t.parquet").columns
        assert columns["id"].tolist() == ["a", "b"]
        assert columns["n"][0] == 1
        assert np.isnan(columns["n"][1])
        assert columns["flag"].tolist() == [1, 0]
        assert np.isnan(columns["none"]).all()
        assert columns["kind"].tolist() == ["u", ""]

    def test_nested_columns_are_refused(self, tmp_path):
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        parquet.write_table(pa.table({"x": [[1], [2]]}), tmp_path / "t.parquet")
        with pytest.raises(DataError, match=r"column 'x' holds list<.*single values"):
            read_table(tmp_path / "t.parquet")

    def test_a_damaged_file_is_a_data_error(self, write):
        pytest.importorskip("pyarrow")
        with pytest.raises(DataError, match="not a readable Parquet file"):
            read_table(write("t.parquet", "not parquet"))

    def test_parquet_needs_pyarrow(self, write, monkeypatch):
        monkeypatch.setitem(sys.modules, "pyarrow", None)
        with pytest.raises(MissingDependencyError, match=r'pyarrow: pip install "gbgnn\[io\]"'):
            read_table(write("t.parquet", "x"))


def test_many_columns_take_no_time(write):
    n = 20_000
    path = write("wide.csv", ",".join(f"c{i}" for i in range(n)) + "\n" + ",".join(["1"] * n) + "\n")
    started = time.perf_counter()
    assert len(read_table(path).columns) == n
    assert time.perf_counter() - started < 5  # where it grew as the square, 40,000 took 16 s


@pytest.mark.parametrize("header", ["a" * 200_000, "a,b,a", ""])
def test_a_header_that_is_none_is_a_data_error(write, header):
    with pytest.raises(DataError):
        read_table(write("odd.csv", f"{header}\n1,2,3\n"))


@pytest.mark.parametrize("kind", ["binary", "large_binary", "repeated", "none"])
def test_odd_columns_of_arrow_are_a_data_error(tmp_path, kind):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    plain = pa.array([1, 2])
    table = {
        "binary": pa.table([pa.array([b"\xff", b"a"])], names=["a"]),
        "large_binary": pa.table([pa.array([b"\xff", b"a"], pa.large_binary())], names=["a"]),
        "repeated": pa.table([plain, plain], names=["a", "a"]),
        "none": pa.table([plain], names=["a"]).select([]),
    }[kind]
    parquet.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(DataError, match="holds bytes|more than once|has no column"):
        read_table(tmp_path / "t.parquet")


def test_rows_of_nothing_do_not_fill_the_memory(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.table({"a": np.zeros(10**6)}), tmp_path / "t.parquet")
    monkeypatch.setattr("gbgnn._memory._LARGE", 10**6)
    with pytest.raises(DataError, match="as files do that are made to fill the memory"):
        read_table(tmp_path / "t.parquet")


def test_a_view_in_a_database_reads_no_other_file(tmp_path):
    duckdb = pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    (tmp_path / "secret.csv").write_text("a\n1\n")
    with duckdb.connect(tmp_path / "d.duckdb") as connection:
        connection.execute("CREATE TABLE plain AS SELECT 1 AS a")
        connection.execute(f"CREATE VIEW spy AS SELECT * FROM read_csv('{tmp_path}/secret.csv')")
    assert read_table(f"{tmp_path}/d.duckdb::plain").columns["a"].tolist() == [1]
    with pytest.raises(DataError, match="not a readable DuckDB file: Permission Error"):
        read_table(f"{tmp_path}/d.duckdb::spy")


def test_a_very_long_text_among_many_short_ones_makes_no_huge_array(tmp_path, monkeypatch):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    parquet.write_table(pa.table({"a": ["x" * 1000, *"y" * 999]}), tmp_path / "t.parquet")
    assert read_table(tmp_path / "t.parquet").columns["a"].dtype == "<U1000"
    monkeypatch.setattr("gbgnn._memory.free_bytes", lambda: 3_999_999)
    with pytest.raises(DataError, match=r"column 'a' needs 3\.8 MiB of memory, but 3\.8 MiB are free"):
        read_table(tmp_path / "t.parquet")
