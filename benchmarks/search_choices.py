"""How the winner of a search is best chosen, and where to search: what ``gbgnn tune``'s options rest on.

Many random settings are trained with several seeds. The validation nodes are cut in two: one half chooses,
the other says what the choice is worth, and then the other way round. No test label is read. Shown is the
accuracy on the half that did not choose, of

- one seed, best round: the best round of the best trial (what a search does by default),
- one seed, last round: the trial that ends best,
- several seeds, best round: settings and round with the best mean over seeds,
- confirmed: the same, among the ten best of one seed only,

in the whole space and in the part of it that is ``default_space``.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
from common import PLANETOID, publish, table
from numpy.typing import NDArray

from gbgnn import datasets
from gbgnn.datasets import Dataset
from gbgnn.population import PopulationInputs, train_population
from gbgnn.tuning import Choice, Integer, Real, SearchSpace, default_space

Curves = NDArray[np.float64]  # settings x seeds x rounds
N_BEST, N_REPEATS = 10, 200


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--settings", type=int, default=128)
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--datasets", nargs="+", default=list(PLANETOID))
    parser.add_argument("--variants", nargs="+", default=["adj", "kta"])
    given = parser.parse_args()
    rows = []
    for variant in given.variants:
        space = wide_space(variant, given.rounds)
        drawn = draw(space, given.settings)
        narrow = [i for i, settings in enumerate(drawn) if lies_in(settings, default_space(variant))]
        for name in given.datasets:
            halves = curves_of(datasets.load(name), space, drawn, given.seeds, given.device)
            for where, chosen in (("wide", list(range(len(drawn)))), ("default", narrow)):
                worth = {how: 100 * value for how, value in judge([half[chosen] for half in halves]).items()}
                rows.append(
                    [variant, name, where, len(chosen), *(round(value, 2) for value in worth.values())]
                )
                print(rows[-1], flush=True)
    head = ["variant", "data", "space", "settings", "one seed, best round", "one seed, last round"]
    head += ["several seeds, best round", "confirmed"]
    means = [
        ["mean", "", where, "", *np.mean([r[4:] for r in rows if r[2] == where], axis=0).round(2)]
        for where in ("wide", "default")
    ]
    publish("search_choices", "How to choose the winner of a search", table(head, [*rows, *means]), rows)


def wide_space(variant: str, n_rounds: int) -> SearchSpace:
    """Return a space around the default one."""
    ranges: dict[str, Any] = {
        "learner__epochs": Integer(10, 100, step=10),
        "learner__learning_rate": Real(1e-3, 1e-1, log=True),
        "learner__weight_decay": Real(5e-4, 5e-2, log=True),
        "learner__units": Integer(16, 128, log=True),
        "learner__dropout": Choice([0.0, 0.5]),
    }
    if variant == "kta":
        ranges["aggregation__epochs"] = Integer(5, 30)
        ranges["aggregation__learning_rate"] = Real(1e-3, 1e-1, log=True)
    return SearchSpace({**default_space(variant).base, "n_rounds": n_rounds}, ranges)


def draw(space: SearchSpace, n: int) -> list[dict[str, Any]]:
    """Return settings drawn evenly from a space."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    return [study.ask(space.distributions()).params for _ in range(n)]


def lies_in(settings: dict[str, Any], space: SearchSpace) -> bool:
    """Say whether all settings are within the ranges of a space."""
    for name, value in settings.items():
        given = space.ranges.get(name)
        if isinstance(given, (Integer, Real)) and not given.low <= value <= given.high:
            return False
    return True


def curves_of(
    data: Dataset, space: SearchSpace, drawn: list[dict[str, Any]], n_seeds: int, device: str
) -> list[Curves]:
    """Return the accuracy on each half of the validation nodes after every round."""
    models = [
        space.build(settings, seed).set_params(device=device) for settings in drawn for seed in range(n_seeds)
    ]
    nodes = np.random.default_rng(0).permutation(data.val)
    halves = []
    # Validation nodes do not change what is trained: the same models, looked at from the other side.
    for half in np.array_split(nodes, 2):
        inputs = PopulationInputs.of(
            models[0], data.train, data.y[data.train], graph=data.graph, validation=(half, data.y[half])
        )
        results = train_population(inputs, models)
        n_rounds = models[0].n_rounds
        full = [
            [*r.val_accuracy, *[(r.val_accuracy or [0.0])[-1]] * (n_rounds - r.n_rounds)] for r in results
        ]
        halves.append(np.array(full).reshape(len(drawn), n_seeds, n_rounds))
    return halves


def judge(halves: list[Curves]) -> list[float]:
    """Return what each way to choose is worth, over both halves and many draws of settings and seeds."""
    random, worth = np.random.default_rng(0), []
    for chooser, other in (halves, halves[::-1]):
        n_settings, n_seeds, _ = chooser.shape
        for _ in range(N_REPEATS):
            some = random.choice(n_settings, max(1, 2 * n_settings // 3), replace=False)
            seed = int(random.integers(n_seeds))
            a, b = chooser[some], other[some]
            one, mean = a[:, seed], a.mean(axis=1)
            best = np.unravel_index(one.argmax(), one.shape)
            last = (one[:, -1].argmax(), -1)
            several = np.unravel_index(mean.argmax(), mean.shape)
            few = np.argsort(-one.max(axis=1), kind="stable")[:N_BEST]
            i, t = np.unravel_index(mean[few].argmax(), mean[few].shape)
            ways = (best, last, several, (few[i], t))
            worth.append([b[setting, seed, round_] for setting, round_ in ways])
    return np.mean(worth, axis=0).tolist()


if __name__ == "__main__":
    main()
