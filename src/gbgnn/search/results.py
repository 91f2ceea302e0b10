"""SearchResult: what a search has found, and the winner fitted again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import optuna
from optuna.trial import FrozenTrial

from gbgnn.errors import ParameterError
from gbgnn.estimators import GBGNNClassifier
from gbgnn.search.objective import TrainingData
from gbgnn.search.reevaluate import Confirmed
from gbgnn.search.sampler import DRAW
from gbgnn.search.spaces import SearchSpace
from gbgnn.search.study import ENDS, ERROR, best_trials, finished_trials, state_name
from gbgnn.settings import Settings, build_model

_LEAST_COMPLETE = 10


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search has found.

    Parameters
    ----------
    best_settings
        The winner's settings, those that were searched; where several seeds were asked, ``n_rounds`` and
        ``select`` too.
    best_value
        Its validation accuracy as the trial had it, to which rounding in a population may add or take a node;
        where several seeds were asked, their mean.
    model
        Fitted with the winner's settings and seed; its learners are kept.
    settings
        All settings that ``model`` was built with by :func:`gbgnn.settings.build_model`: fixed ones, best
        ones, ``random_state`` and ``device``. A record of the run needs no other model for them.
    study
        The study, for Optuna's own tools.
    seconds
        How long this search took; trials of an earlier one are not in it.
    confirmed
        The trials that were confirmed, the best first; empty where none were.
    """

    best_settings: Settings
    best_value: float
    model: GBGNNClassifier
    settings: Settings
    study: optuna.Study
    seconds: float
    confirmed: Sequence[Confirmed]

    @property
    def trials(self) -> list[FrozenTrial]:
        """All trials, in order."""
        return self.study.get_trials(deepcopy=False)

    @property
    def counts(self) -> dict[str, int]:
        """How many trials are ``complete``, ``pruned`` and ``failed``."""
        states = list(map(state_name, self.trials))
        return {state: states.count(state) for state in ENDS}

    @property
    def checksums(self) -> Mapping[str, str]:
        """Checksums of what was searched on, ``graph`` and ``labels``, for a record of the run."""
        found: Mapping[str, str] = self.study.user_attrs["data"]
        return found

    def importances(self) -> dict[str, float]:
        """Return how much each setting has to do with a good value, as shares of one, the largest first.

        Empty while fewer than ten trials are complete: what they say is noise.
        """
        if self.counts["complete"] < _LEAST_COMPLETE:
            return {}
        return optuna.importance.get_param_importances(self.study)


def fit_winner(
    study: optuna.Study,
    confirmed: Sequence[Confirmed],
    space: SearchSpace,
    data: TrainingData,
    own: Settings,
    seconds: float,
) -> SearchResult:
    """Fit the winner of a search that is over, with settings of its own, and return what was found."""
    best = find_best(study)
    chosen, value = best.params, best.values[0]
    if confirmed:
        chosen, value = confirmed[0].settings, confirmed[0].value
        best = study.get_trials(deepcopy=False)[confirmed[0].number]
    settings = {**space.base, **chosen, **own}
    if DRAW in best.user_attrs:  # a trial may also have been added by hand
        settings["random_state"] = best.user_attrs[DRAW][0]
    model = build_model(settings)
    data.fit(model)
    return SearchResult(chosen, value, model, settings, study, seconds, confirmed)


def find_best(study: optuna.Study) -> FrozenTrial:
    """Return the first of the best trials of a study, or say why there is none."""
    done = finished_trials(study)
    best = best_trials(done, 1)
    if not best:
        reasons = [trial.user_attrs[ERROR] for trial in done if ERROR in trial.user_attrs]
        why = f" The last one: {reasons[-1]}" if reasons else ""
        raise ParameterError(
            f"none of {len(done)} trials was completed, so there is no best one; search longer, or "
            f"elsewhere.{why}"
        )
    return best[0]
