"""Table 1 of the paper, and its table of all variants, L = 0 to 4 (table 4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from gbgnn.datasets import Dataset
from gbgnn.errors import ParameterError
from gbgnn_lab.experiments.experiment import Experiment, Options, Shelf
from gbgnn_lab.experiments.judging import DIGITS, identify
from gbgnn_lab.experiments.pages import Page
from gbgnn_lab.experiments.paper import ACCURACY, DATASETS, LAYERS, VARIANTS, Cell
from gbgnn_lab.experiments.protocol import Protocol
from gbgnn_lab.experiments.records import Fields, Record, key_of
from gbgnn_lab.experiments.running import Job, Outcome, Tell
from gbgnn_lab.experiments.summaries import in_order
from gbgnn_lab.experiments.tables import Result, accuracy_page, results_of

TITLES = {
    "table1": "Table 1: GB-GNN with and without fine-tuning",
    "table4": "Table 4: all variants, L hidden layers",
}
_QUICK = {
    "table1": Options(runs=2, trials=5, tune_trials=5, finalists=1, space="quick"),
    "table4": Options(runs=1, trials=3, tune_trials=3, finalists=1, space="quick"),
}


def cells_of(options: Options) -> list[Cell]:
    """Return the rows that are asked for: variants with every L, and fine-tuned where L = 1 is among them.

    Examples
    --------
    >>> [str(cell) for cell in cells_of(Options(variants=("ii",), layers=(0, 1)))]
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
    name: str, borrows: Sequence[str], data: Mapping[str, Dataset], options: Options, shelf: Shelf
) -> Iterator[Sequence[Job]]:
    """Yield the searches of boosting, then those of fine-tuning, which begin where the former ended.

    Parameters
    ----------
    name
        The experiment.
    borrows
        Experiments that have searched some of the same cells: those with as many runs, and as many trials in
        the same space, are not searched again.
    data, options, shelf
        What to search on, what, and the results so far.
    """
    protocol, runs, places = options.protocol, range(options.runs or 0), list(map(Place, data.values()))
    elsewhere = results_of(shelf.read(*borrows))
    wanted = [
        (cell, place)
        for place in places
        for cell in cells_of(options)
        if not _is_covered(elsewhere.get((cell, place.data.name)), cell, place, protocol, len(runs))
    ]
    boosted = dict.fromkeys((Cell(cell.variant, cell.hidden_layers), place) for cell, place in wanted)
    # A population is for the runs of a cell together; otherwise each is a job of its own.
    teams = [[run] for run in runs] if protocol.population is None else [list(runs)]
    yield [
        Job(
            [place.identity(cell, run, protocol) for run in team],
            partial(_search, cell, place.data, protocol, options.device),
        )
        for cell, place in boosted
        for team in teams
    ]
    found = {record.key: record for record in shelf.read(*borrows, name)}

    def first_stage(cell: Cell, place: Place, run: int) -> Record:
        return found[key_of(place.identity(Cell(cell.variant, cell.hidden_layers), run, protocol))]

    yield [
        Job.of_run(
            place.identity(cell, run, protocol),
            partial(
                _search_tuning,
                cell,
                place.data,
                run,
                protocol,
                options.device,
                first_stage(cell, place, run),
            ),
        )
        for cell, place in wanted
        if cell.fine_tune
        for run in runs
    ]


class Place:
    """A data set, and what identifies it."""

    def __init__(self, data: Dataset) -> None:
        self.data, self.known = data, identify(data)

    def identity(self, cell: Cell, run: int, protocol: Protocol) -> Fields:
        """Return what makes a run of a cell this run and no other."""
        return {
            **self.known,
            "variant": cell.variant,
            "hidden_layers": cell.hidden_layers,
            "fine_tune": cell.fine_tune,
            "run": run,
            "protocol": protocol.to_document(fine_tune=cell.fine_tune),
            "space": self.space_checksum(cell, protocol),
        }

    def space_checksum(self, cell: Cell, protocol: Protocol) -> str:
        """Return a checksum of what is searched: the ranges that a space's name stands for may change."""
        from gbgnn_lab.experiments.searching import cell_space  # optuna, which a table alone does not need

        return cell_space(cell, protocol.space, len(self.data.train)).checksum()[:DIGITS]


def page(name: str, borrows: Sequence[str], shelf: Shelf) -> Page:
    """Return the table of all cells that have records, borrowed ones included."""
    records = shelf.read(*borrows, name)
    known = set(results_of(records))
    cells = [cell for cell in ACCURACY if any(cell == each for each, _ in known)]
    names = in_order((record["dataset"] for record in records), DATASETS)
    return accuracy_page(TITLES[name], cells, names, records)


def _search(
    cell: Cell, data: Dataset, protocol: Protocol, device: Any, identities: Sequence[Fields], tell: Tell
) -> list[Outcome]:
    from gbgnn_lab.experiments.searching import search

    return search(cell, data, [identity["run"] for identity in identities], protocol, device, tell)


def _search_tuning(
    cell: Cell, data: Dataset, run: int, protocol: Protocol, device: Any, before: Record, tell: Tell
) -> Outcome:
    from gbgnn_lab.experiments.two_stages import search_fine_tuning

    if before.failure is not None:
        raise ParameterError(
            f"there is nothing to fine-tune: the search without fine-tuning failed ({before.failure})"
        )
    return search_fine_tuning(cell, data, run, protocol, before.results["finalists"], device, tell)


def _is_covered(known: Result | None, cell: Cell, place: Place, protocol: Protocol, n_runs: int) -> bool:
    """Say whether a result makes another search needless."""
    if known is None:
        return False
    first = known.records[0]
    return (
        all(first[part] == value for part, value in place.known.items())
        and first["space"] == place.space_checksum(cell, protocol)
        and all(first["protocol"][name] == getattr(protocol, name) for name in ("seeds_per_trial", "confirm"))
        and first["protocol"]["trials"] >= protocol.trials
        and sum(record.failure is None for record in known.records) >= n_runs
    )


def _experiment(
    name: str, borrows: Sequence[str], variants: Sequence[str], layers: Sequence[int]
) -> Experiment:
    return Experiment(
        name,
        partial(stages, name, borrows),
        partial(page, name, borrows),
        Options(datasets=tuple(DATASETS), variants=tuple(variants), layers=tuple(layers), runs=10),
        _QUICK[name],
    )


TABLE1 = _experiment("table1", (), ("adj", "kta"), (1,))
TABLE4 = _experiment("table4", ("table1",), tuple(VARIANTS), LAYERS)
