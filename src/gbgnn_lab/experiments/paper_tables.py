"""Table 1 of the paper, and its table of all variants, L = 0 to 4 (table 4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from gbgnn.datasets import Dataset
from gbgnn.errors import ParameterError
from gbgnn_lab.experiments.evaluation import DIGITS, identify_data
from gbgnn_lab.experiments.experiment import Experiment
from gbgnn_lab.experiments.jobs import Job, Outcome, single_jobs
from gbgnn_lab.experiments.options import Options, Protocol
from gbgnn_lab.experiments.paper import ACCURACY, DATASETS, LAYERS, VARIANTS, Cell
from gbgnn_lab.experiments.progress import Tell
from gbgnn_lab.experiments.records import Fields, Record, identity_key, read_records
from gbgnn_lab.experiments.report import Report
from gbgnn_lab.experiments.summaries import sort_names
from gbgnn_lab.experiments.tables import CellResult, select_results, tabulate_accuracy

TITLES = {
    "table1": "Table 1: GB-GNN with and without fine-tuning",
    "table4": "Table 4: all variants, L hidden layers",
}
_QUICK = {
    "table1": Options(runs=2, trials=5, tune_trials=5, finalists=1, space="quick"),
    "table4": Options(runs=1, trials=3, tune_trials=3, finalists=1, space="quick"),
}


def list_cells(options: Options) -> list[Cell]:
    """Return the rows that are asked for: variants with every L, and fine-tuned where L = 1 is among them.

    Examples
    --------
    >>> [str(cell) for cell in list_cells(Options(variants=("ii",), layers=(0, 1)))]
    ['GB-GNN-II, L = 0', 'GB-GNN-II', 'GB-GNN-II + FT']
    """
    return [
        cell
        for variant in options.variants
        for cell in (
            *(Cell(variant, layers) for layers in options.layers),
            *([Cell(variant, fine_tune=True)] if 1 in options.layers else []),
        )
    ]


def stages(
    name: str, borrows: Sequence[str], data: Mapping[str, Dataset], options: Options
) -> Iterator[Sequence[Job]]:
    """Yield the searches of boosting, then those of fine-tuning, which begin where the former ended.

    Parameters
    ----------
    name
        The experiment.
    borrows
        Experiments that have searched some of the same cells: those with as many runs, and as many trials in
        the same space, are not searched again.
    data, options
        What to search on, and what.
    """
    from gbgnn_lab.experiments import searching  # optuna, which a table alone does not need

    protocol, n_runs = options.protocol, options.runs or 0
    known = {each.name: identify_data(each) for each in data.values()}
    elsewhere = select_results(read_records(options.out, *borrows))

    def identify(cell: Cell, each: Dataset) -> Fields:
        # The ranges that a space's name stands for may change: a checksum says what was searched.
        space = searching.cell_space(cell, protocol.space, len(each.train)).checksum()[:DIGITS]
        return known[each.name] | {
            "variant": cell.variant,
            "hidden_layers": cell.hidden_layers,
            "fine_tune": cell.fine_tune,
            "protocol": protocol.to_document(fine_tune=cell.fine_tune),
            "space": space,
        }

    wanted = [
        (cell, each)
        for each in data.values()
        for cell in list_cells(options)
        if not _is_covered(elsewhere.get((cell, each.name)), identify(cell, each), n_runs)
    ]
    boosted = {(cell.boosted, each.name): each for cell, each in wanted}
    runs = list(range(n_runs))
    # A population is for the runs of a cell together; otherwise each is a job of its own.
    teams = [[run] for run in runs] if protocol.population is None else [runs]
    yield [
        Job(
            identify(cell, each),
            team,
            partial(searching.search, cell, each, protocol=protocol, device=options.device),
        )
        for (cell, _), each in boosted.items()
        for team in teams
    ]
    found = {record.key: record for record in read_records(options.out, *borrows, name)}
    yield [
        job
        for cell, each in wanted
        if cell.fine_tune
        for first in [[found[identity_key(identify(cell.boosted, each) | {"run": run})] for run in runs]]
        for job in single_jobs(
            identify(cell, each),
            n_runs,
            partial(_search_fine_tuning, cell, each, protocol, options.device, first),
        )
    ]


def tabulate(name: str, borrows: Sequence[str], out: Path) -> Report:
    """Return the table of all cells that have records, borrowed ones included."""
    records = read_records(out, *borrows, name)
    known = {cell for cell, _ in select_results(records)}
    names = sort_names((record["dataset"] for record in records), DATASETS)
    return tabulate_accuracy(TITLES[name], [cell for cell in ACCURACY if cell in known], names, records)


def _search_fine_tuning(
    cell: Cell, data: Dataset, protocol: Protocol, device: Any, first: Sequence[Record], run: int, tell: Tell
) -> Outcome:
    """Search from where the first stage of the same run ended."""
    from gbgnn_lab.experiments.two_stages import search_fine_tuning

    if first[run].failure is not None:
        raise ParameterError(
            f"there is nothing to fine-tune: the search without fine-tuning failed ({first[run].failure})"
        )
    return search_fine_tuning(cell, data, run, protocol, first[run].results["finalists"], device, tell)


def _is_covered(result: CellResult | None, identity: Fields, n_runs: int) -> bool:
    """Return whether a result makes another search needless."""
    if result is None:
        return False
    first, protocol = result.records[0], identity["protocol"]
    return (
        all(first[part] == identity[part] for part in ("dataset", "split", "data", "space"))
        and all(first["protocol"][part] == protocol[part] for part in ("seeds_per_trial", "confirm"))
        and first["protocol"]["trials"] >= protocol["trials"]
        and sum(record.failure is None for record in result.records) >= n_runs
    )


def _define(name: str, borrows: Sequence[str], variants: Sequence[str], layers: Sequence[int]) -> Experiment:
    return Experiment(
        name,
        partial(stages, name, borrows),
        partial(tabulate, name, borrows),
        Options(datasets=tuple(DATASETS), variants=tuple(variants), layers=tuple(layers), runs=10),
        _QUICK[name],
    )


TABLE1 = _define("table1", (), ("adj", "kta"), (1,))
TABLE4 = _define("table4", ("table1",), tuple(VARIANTS), LAYERS)
