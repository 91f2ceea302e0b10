"""Few labels: our models beside tuned graph networks on Cora, CiteSeer and PubMed, 20 labels a class.

The public split with ten seeds, and ten random splits of 20 training nodes a class, 500 validation and 1,000
test nodes. Networks have their published settings of the data set; what those leave open is chosen by
validation. No system is given the test labels.

Every run is a line of the cache, so that an interrupted call goes on, and rows may be made on several
machines: there ``--systems grand grand_plus --device cuda --jobs 8 --cache gpu.jsonl --no-page``, here
``--merge gpu.jsonl``. Any system of ``gbgnn compare`` may be named.
"""

from __future__ import annotations

from common import PLANETOID
from ranking import OURS, Column, Comparison, Results, compare, graph_tables, list_origins, rank_table

from gbgnn.datasets import Dataset, load, random_split
from gbgnn_lab.baselines import BASELINES

CLASSIC = ("gcn", "sgc", "appnp", "gcnii", "residual_gcn", "residual_sage")
PEERS = ("grand", "grand_plus", "gprgnn", "h2gcn", "linkx")
FIGURES = {"accuracy": "accuracy", "log_loss": "log loss"}
COLUMNS = [
    Column(graph, split, figure, f"{title}, {split}", is_ranked=figure == "accuracy")
    for graph in PLANETOID
    for split in ("public", "random")
    for figure, title in FIGURES.items()
]


def read_data(graph: str, kind: str, number: int) -> Dataset:
    """Return a citation graph in which no earlier run has left anything, with the split of that number."""
    data = load(graph)
    if kind == "public":
        return data
    return data.with_split(random_split(data.y, 20, 500, 1000, seed=number), f"random, {number}")


def write_page(results: Results) -> list[str]:
    """Return the lines: ranks by accuracy, a table per graph, published figures, and where runs were made."""
    about = (
        f"Mean ± standard deviation over {results.n_runs} seeds of the public split and as many random "
        "splits of 20 training nodes a class, 500 validation and 1,000 test nodes; figures of the test "
        "nodes, whose labels no system sees. gbgnn has its defaults. Networks have their published settings; "
        "those without any for these graphs are searched, eight trials on every split. Places are by "
        "accuracy. Seconds are of a fit, search and prediction included; those of a GPU compare among "
        "themselves."
    )
    places = ["## Places", "", *rank_table(results)]
    return [about, "", *places, *graph_tables(results), *_published(results), *list_origins(results)]


def _published(results: Results) -> list[str]:
    """Return what others have published, in percent, and where."""
    lines = []
    for system in results.systems:
        baseline = BASELINES.get(system)
        if baseline is not None and baseline.cited and results.has_runs(system):
            figures = " / ".join(str(baseline.cited.get(graph, "-")) for graph in results.graphs)
            lines.append(f"- {baseline.title}: {figures} ({baseline.cited_from}).")
    if not lines:
        return []
    return ["", f"## Published accuracy in percent ({' / '.join(results.graphs)})", "", *lines]


COMPARISON = Comparison("few_labels", "Few labels", COLUMNS, (OURS, *CLASSIC, *PEERS), read_data)

if __name__ == "__main__":
    compare(COMPARISON, __doc__, write_page)
