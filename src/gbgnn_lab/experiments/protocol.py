"""Protocol: how much searching a number stands for."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from gbgnn._checks import check_choice, check_integer
from gbgnn.errors import ParameterError
from gbgnn_lab.experiments.records import Fields

SPACES = ("paper", "default", "quick")
N_KEPT = 5
"""So many of the best trials of a search are recorded, for fine-tuning and for curious readers."""


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How a cell is searched.

    Parameters
    ----------
    trials
        Trials of the search.
    population
        How many are trained at once; None trains one after another.
    seeds_per_trial
        With how many seeds every trial is trained, to be judged by their mean; more than one needs a
        population.
    confirm
        How many of the best trials are trained again with other seeds, to take the settings and the number of
        rounds that are best on average; 0 takes the best trial.
    space
        ``"paper"``: the paper's table of hyper-parameters; ``"default"``: narrower, for our learner;
        ``"quick"``: small models, to see everything at work.
    finalists, tune_trials
        Of a fine-tuned cell: how many of the best settings of boosting are tuned, and the trials of the
        settings of tuning, all finalists together.
    """

    trials: int = 1000
    population: int | None = None
    seeds_per_trial: int = 1
    confirm: int = 0
    space: str = "paper"
    finalists: int = 3
    tune_trials: int = 100

    def __post_init__(self) -> None:
        check_integer("Protocol", "trials", self.trials, 1)
        check_integer("Protocol", "population", self.population, 1, optional=True)
        check_integer("Protocol", "seeds_per_trial", self.seeds_per_trial, 1)
        check_integer("Protocol", "confirm", self.confirm, 0)
        if self.seeds_per_trial > 1 and self.population is None:
            raise ParameterError("seeds_per_trial > 1 needs a population, in which they are trained at once.")
        check_choice("Protocol", "space", self.space, SPACES)
        check_integer("Protocol", "finalists", self.finalists, 1, N_KEPT)
        check_integer("Protocol", "tune_trials", self.tune_trials, 1)

    def to_document(self, *, fine_tune: bool) -> Fields:
        """Return what matters to a cell, for its records.

        Examples
        --------
        >>> Protocol(trials=200).to_document(fine_tune=False)
        {'trials': 200, 'population': None, 'seeds_per_trial': 1, 'confirm': 0, 'space': 'paper'}
        """
        own = () if fine_tune else ("finalists", "tune_trials")
        return {name: value for name, value in asdict(self).items() if name not in own}
