from __future__ import annotations

import pytest

from gbgnn.datasets import read_folder
from gbgnn.datasets.tables import is_table_folder
from gbgnn.errors import DataError

NODES = "id,label,f,split\n1,0,0.5,train\n2,1,0.7,test\n"


def test_the_two_tables_are_found_by_name(write, tmp_path):
    write("edges.tsv", "source\ttarget\n1\t2\n")
    write("nodes.csv", NODES)
    assert is_table_folder(tmp_path)
    assert read_folder(tmp_path).graph.n_edges == 1


def test_options_reach_the_reader(write, tmp_path):
    write("edges.csv", "source,target\n1,2\n")
    write("nodes.csv", NODES)
    assert read_folder(tmp_path, directed=True, name="arrow").graph.is_directed


def test_a_missing_or_ambiguous_table_is_named(write, tmp_path):
    write("edges.csv", "source,target\n1,2\n")
    assert not is_table_folder(tmp_path)
    with pytest.raises(DataError, match=r"must hold one nodes table .*; found none"):
        read_folder(tmp_path)
    write("nodes.csv", NODES)
    write("nodes.parquet", "")
    with pytest.raises(DataError, match=r"found nodes\.csv and nodes\.parquet"):
        read_folder(tmp_path)


def test_a_file_is_not_a_folder(write):
    with pytest.raises(DataError, match=r"edges\.csv is not a folder"):
        read_folder(write("edges.csv", "source,target\n"))


def test_graphland_folders_are_recognised(write, tmp_path):
    write("edgelist.csv", "source,target\n0,1\n")
    write("features.csv", ",f\n0,1\n1,2\n")
    write("targets.csv", ",t\n0,0\n1,1\n")
    assert is_table_folder(tmp_path)
    assert read_folder(tmp_path, split="auto").graph.n_edges == 1
