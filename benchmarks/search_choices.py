"""How the winner of a search is best chosen, and where to search: what ``gbgnn tune``'s options rest on.

Random settings are trained with several seeds on development splits (see development.py): the validation
nodes choose among them, and nodes that are held out say what the choice is worth. No test node of the public
splits is looked at. Shown is the accuracy on the nodes held out, of

- one seed, best round: the best round of the best trial (what a search does by default),
- one seed, last round: the trial that ends best,
- several seeds, best round: settings and round with the best mean over seeds,
- confirmed: the same, among the ten best of one seed only,

in ``default_space`` and in a wider one around it.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import optuna
from common import PLANETOID, publish, table
from development import curves_on, development_data, padded
from numpy.typing import NDArray

from gbgnn import datasets
from gbgnn.datasets import Dataset
from gbgnn.tuning import Integer, Real, SearchSpace, default_space

Curves = NDArray[np.float64]  # settings x seeds x rounds
N_BEST, N_REPEATS = 10, 200
WIDE: dict[str, Any] = {
    "learner__epochs": Integer(10, 100, step=10),
    "learner__learning_rate": Real(1e-3, 1e-1, log=True),
    "learner__weight_decay": Real(5e-4, 5e-2, log=True),
    "learner__units": Integer(16, 128, log=True),
    "rule__learning_rate": Real(5e-3, 1.0, log=True),
    "rule__error_floor": Real(1e-7, 1e-1, log=True),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--settings", type=int, default=96)
    parser.add_argument("--seeds", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--datasets", nargs="+", default=list(PLANETOID))
    parser.add_argument("--variants", nargs="+", default=["adj", "kta"])
    given = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    rows = []
    for variant in given.variants:
        narrow = default_space(variant).replaced({"n_rounds": given.rounds})
        for where, space in (("wide", narrow.replaced(WIDE)), ("default", narrow)):
            drawn = draw(space, given.settings)
            for name in given.datasets:
                splits = [development_data(datasets.load(name), seed) for seed in range(given.splits)]
                curves = [curves_of(each, space, drawn, given.seeds, given.device) for each in splits]
                worth = np.mean([judge(*both) for both in curves], axis=0)
                rows.append([variant, name, where, *(100 * worth).round(2).tolist()])
                print(rows[-1], flush=True)
    head = ["variant", "data", "space", "one seed, best round", "one seed, last round"]
    head += ["several seeds, best round", "confirmed"]
    means = [
        ["mean", "", where, *np.mean([row[3:] for row in rows if row[2] == where], axis=0).round(2)]
        for where in ("wide", "default")
    ]
    publish("search_choices", "How to choose the winner of a search", table(head, [*rows, *means]), rows)


def draw(space: SearchSpace, n: int) -> list[dict[str, Any]]:
    """Return settings drawn evenly from a space."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    return [study.ask(space.distributions()).params for _ in range(n)]


def curves_of(
    data: Dataset, space: SearchSpace, drawn: list[dict[str, Any]], n_seeds: int, device: str
) -> list[Curves]:
    """Return the accuracy on the validation nodes, and on those held out, after every round."""
    models = [
        space.build(settings, seed).set_params(device=device) for settings in drawn for seed in range(n_seeds)
    ]
    both = [padded(curves_on(nodes, data, models), models[0].n_rounds) for nodes in (data.val, data.test)]
    return [curves.reshape(len(drawn), n_seeds, -1) for curves in both]


def judge(chooser: Curves, other: Curves) -> list[float]:
    """Return what each way to choose is worth, mean over many draws of settings and seeds."""
    random, worth = np.random.default_rng(0), []
    n_settings, n_seeds, _ = chooser.shape
    for _ in range(N_REPEATS):
        some = random.choice(n_settings, max(1, 2 * n_settings // 3), replace=False)
        seed = int(random.integers(n_seeds))
        a, b = chooser[some], other[some].mean(axis=1)
        one, mean = a[:, seed], a.mean(axis=1)
        best = np.unravel_index(one.argmax(), one.shape)
        last = (one[:, -1].argmax(), -1)
        several = np.unravel_index(mean.argmax(), mean.shape)
        few = np.argsort(-one.max(axis=1), kind="stable")[:N_BEST]
        i, t = np.unravel_index(mean[few].argmax(), mean[few].shape)
        worth.append([b[setting, round_] for setting, round_ in (best, last, several, (few[i], t))])
    return np.mean(worth, axis=0).tolist()


if __name__ == "__main__":
    main()
