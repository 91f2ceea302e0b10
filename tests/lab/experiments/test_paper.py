from __future__ import annotations

import pytest

from gbgnn.errors import ParameterError
from gbgnn.search import VARIANTS as PARTS
from gbgnn_lab.baselines import BASELINES
from gbgnn_lab.experiments.options import Options
from gbgnn_lab.experiments.paper import ACCURACY, CITATIONS, DATASETS, VARIANTS, Accuracy, Cell, cite_accuracy
from gbgnn_lab.experiments.paper_tables import TABLE1, list_cells


@pytest.mark.parametrize(
    ("cell", "dataset", "printed"),
    [
        (Cell("adj"), "cora", Accuracy(79.9, 0.8)),
        (Cell("adj", 4), "citeseer", Accuracy(60.7, 1.7)),
        (Cell("adj", fine_tune=True), "pubmed", Accuracy(79.0, 0.5)),
        (Cell("kta"), "citeseer", Accuracy(73.1, 1.1)),
        (Cell("kta", 0), "pubmed", Accuracy(79.4, 0.1)),
        (Cell("kta", fine_tune=True), "cora", Accuracy(82.3, 1.1)),
        (Cell("kta", fine_tune=True), "pubmed", None),
        (Cell("ii", 3), "cora", Accuracy(78.7, 1.7)),
        (Cell("samme_r"), "cora", Accuracy(82.2, 1.2)),
        (Cell("samme_r", fine_tune=True), "pubmed", Accuracy(79.4, 0.4)),
    ],
)
def test_cells_are_as_printed(cell, dataset, printed):
    assert ACCURACY[cell][dataset] == printed


def test_the_table_has_24_rows_and_one_empty_cell():
    assert len(ACCURACY) == 24
    assert [cell for cell, row in ACCURACY.items() if None in row.values()] == [Cell("kta", fine_tune=True)]
    assert all(list(row) == list(DATASETS) for row in ACCURACY.values())


def test_table_1_has_eleven_filled_cells():
    filled = [ACCURACY[cell][name] for cell in list_cells(TABLE1.choose(Options())) for name in DATASETS]
    assert sum(value is not None for value in filled) == 11


def test_variants_are_those_that_can_be_searched():
    assert list(VARIANTS) == list(PARTS)


def test_every_cited_system_can_be_run():
    assert set(CITATIONS) <= set(BASELINES)
    assert sum(map(len, CITATIONS.values())) == 21
    assert all(set(printed) <= set(DATASETS) for row in CITATIONS.values() for printed in row.values())


def test_citations_prefer_the_systems_own_paper():
    assert dict(cite_accuracy("tagcn")) == {"cora": 83.3, "citeseer": 71.4, "pubmed": 79.4}
    assert dict(cite_accuracy("monet")) == {"cora": 81.6, "pubmed": 76.3}
    assert cite_accuracy("gcnii") == {}


def test_a_cell_is_of_a_known_variant():
    with pytest.raises(ParameterError, match="Cell.variant must be one of adj, kta, ii, samme_r; got 'ajd'"):
        Cell("ajd")
    with pytest.raises(ParameterError, match="Cell.hidden_layers must be an integer from 0 to 4; got 5"):
        Cell("adj", 5)
