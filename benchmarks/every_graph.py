"""Every graph at hand: our models beside trees and graph networks with eight trials each, and mean ranks.

From ``graphs/`` in GBGNN_DATA: amazon_computers and credit_nifty with their own masks and ten seeds;
minesweeper and chameleon_filtered with their ten public splits; airport_hgcn with ten random splits of 60 %
training, 20 % validation and 20 % test nodes; county_election_2016 and california_housing_knn5 with the
random splits of ``tables_and_links.py``. No system is given the test labels.

Every run is a line of the cache, so that an interrupted call goes on, and rows may be made on several
machines: there ``--systems residual_gcn linkx --device cuda --jobs 8 --cache gpu.jsonl --no-page``, here
``--merge gpu.jsonl``. Any system of ``gbgnn compare`` may be named.
"""

from __future__ import annotations

from collections.abc import Iterator

from ranking import OURS, Column, Comparison, Results, compare, graph_tables, list_origins, rank_table

RESIDUAL = ("residual_gcn", "residual_sage", "residual_gat")
PEERS = ("gprgnn", "h2gcn", "linkx", "grand", "grand_plus")
TREES = ("lightgbm", "lightgbm_2hop", "lightgbm_residuals")
CLASSES = {
    "amazon_computers": ("own", "accuracy"),
    "minesweeper": ("public", "auc"),
    "chameleon_filtered": ("public", "accuracy"),
    "airport_hgcn": ("60/20/20", "accuracy"),
    "credit_nifty": ("own", "auc"),
}
"""The kind of split of a graph with classes, and the figure that it is judged by."""
NUMBERS = ("county_election_2016", "california_housing_knn5")
TITLES = {"accuracy": "accuracy", "auc": "AUC"}


def list_columns() -> Iterator[Column]:
    """Yield the figure that each graph is judged by, and the log loss of classes."""
    for graph, (split, figure) in CLASSES.items():
        yield Column(graph, split, figure, TITLES[figure])
        yield Column(graph, split, "log_loss", "log loss", is_ranked=False)
    for graph in NUMBERS:
        for split in ("50/25/25", "10/10/80"):
            yield Column(graph, split, "r2", f"R2, {split}")


def write_page(results: Results) -> list[str]:
    """Return the lines: ranks, a table per graph, and where runs were made."""
    about = (
        f"Mean ± standard deviation over {results.n_runs} splits or seeds, figures of the test nodes, whose "
        "labels no system sees. gbgnn has its defaults. The number of trees is chosen by the loss of the "
        "validation nodes; networks have eight trials on every split, epochs and trials ranked by validation "
        "AUC where there are two classes, accuracy where there are more, loss of numbers. Every graph counts "
        "the same in a mean rank; systems for classes alone have one over these. Seconds are of a fit, "
        "columns, search and prediction included; those of a GPU compare among themselves."
    )
    with_classes = [graph for graph in results.graphs if graph in CLASSES]
    means = {"mean rank": results.graphs, "mean rank, classes": with_classes}
    places = ["## Places", "", *rank_table(results, means)]
    return [about, "", *places, *graph_tables(results), *list_origins(results)]


SYSTEMS = (OURS, *RESIDUAL, *PEERS, *TREES)
COMPARISON = Comparison("every_graph", "Every graph", tuple(list_columns()), SYSTEMS)

if __name__ == "__main__":
    compare(COMPARISON, __doc__, write_page)
