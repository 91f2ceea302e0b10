"""Tables with links: our default beside boosted trees and residual graph networks, on four real graphs.

From ``graphs/`` in GBGNN_DATA: county_election_2016 (the share of votes; counties without one are in no
split) and california_housing_knn5 (house prices; latitude and longitude made the graph and are no columns),
each with ten random splits of 50 % training, 25 % validation and 25 % test nodes and ten of 10, 10 and 80 %;
credit_nifty with its own split and ten seeds; minesweeper with its ten public splits. No system is given the
test labels.

Every run is a line of the cache, so that an interrupted call goes on, and rows may be made on several
machines: there ``--systems residual_gcn residual_sage residual_gat --device cuda --cache gpu.jsonl
--no-page``, here ``--merge gpu.jsonl``.
"""

from __future__ import annotations

from ranking import (
    NETWORKS,
    OURS,
    TREES,
    Column,
    Comparison,
    Results,
    compare,
    graph_tables,
    list_origins,
    rank_table,
    title_of,
)

ALL = (OURS, *TREES, *NETWORKS)
CLASSES = {"auc": "AUC", "average_precision": "AP"}
COLUMNS = [
    *(
        Column(graph, split, "r2", f"R2, {split}")
        for graph in ("county_election_2016", "california_housing_knn5")
        for split in ("50/25/25", "10/10/80")
    ),
    *(Column("credit_nifty", "own", figure, title) for figure, title in CLASSES.items()),
    *(Column("minesweeper", "public", figure, title) for figure, title in CLASSES.items()),
]


def write_page(results: Results) -> list[str]:
    """Return the lines: ranks, who is first where, a table per graph, and where runs were made."""
    about = (
        f"Mean ± standard deviation over {results.n_runs} splits or seeds, figures of the test nodes, whose "
        "labels no system sees. gbgnn has its defaults. The number of trees is chosen by the loss of the "
        "validation nodes; residual networks are searched over depth 2 and 5, dropout 0.2 and 0.5 and "
        "learning rate 0.003 and 0.01 on every split, epochs and trials ranked by validation AUC or, of "
        "numbers, loss. Seconds are of a fit, columns, search and prediction included; those of a GPU "
        "compare among themselves."
    )
    places = ["## Places", "", *rank_table(results), "", *_leaders(results)]
    return [about, "", *places, *graph_tables(results), *list_origins(results)]


def _leaders(results: Results) -> list[str]:
    """Return who is first in every column, and the best of trees and networks beside our default."""
    lines = []
    for column in results.columns:
        means = results.means(column)
        if not means:
            continue
        best = [
            next((each for each in means if each in group), None)
            for group in (results.systems, (OURS,), TREES, NETWORKS)
        ]
        words = [f"{title_of(each)} {means[each]:.4f}" if each else "-" for each in best]
        first, ours, tree, network = words
        lines.append(
            f"- {column.graph}, {column.title}: first {first}. Ours {ours}; best trees: {tree}; best "
            f"network: {network}."
        )
    return lines


COMPARISON = Comparison("tables_and_links", "Tables with links", COLUMNS, ALL)

if __name__ == "__main__":
    compare(COMPARISON, __doc__, write_page)
