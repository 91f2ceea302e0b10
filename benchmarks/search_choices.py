"""How the winner of a search is best chosen, and where to search: what ``gbgnn tune``'s options rest on.

Random settings are trained with eight seeds on development splits (see development.py): the validation
nodes choose among them, and nodes that are held out say what the choice is worth. No test node of the public
splits is looked at. Shown is the accuracy on the nodes held out, of

- one seed, best round: the best round of the best trial (what a search does by default),
- one seed, last round: the trial that ends best,
- three seeds: settings and round with the best mean over three seeds,
- confirmed: the ten best of three seeds, asked five seeds more; settings and round with the best mean,
- smoothed: the same, by the mean over a few neighbouring rounds,
- last: the same, without a choice of rounds,

in ``default_space`` and in a wider one around it. A second table says where in ``default_space`` models are
good: the best round's accuracy on all nodes that did not train, mean over the settings of which a range's
value is in the lowest third, the middle one, the highest.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import optuna
from common import PLANETOID, publish, table
from development import curves_on, development_data, padded
from numpy.typing import NDArray
from scipy.ndimage import uniform_filter1d

from gbgnn import datasets
from gbgnn.datasets import Dataset
from gbgnn.search import Integer, Real, SearchSpace, default_space

Curves = NDArray[np.float64]  # validation and held-out nodes x settings x seeds x rounds
Choice = tuple[int, int]  # of a setting and a round
WAYS = ["one seed, best round", "one seed, last round", "three seeds", "confirmed", "smoothed", "last"]
N_BEST, N_REPEATS, N_FEW, N_NEIGHBOURS = 10, 200, 3, 4
WIDE: dict[str, Any] = {
    "learner__epochs": Integer(10, 100, step=10),
    "learner__learning_rate": Real(1e-3, 1e-1, log=True),
    "learner__weight_decay": Real(5e-4, 5e-2, log=True),
    "learner__units": Integer(16, 128, log=True),
    "rule__learning_rate": Real(5e-3, 1.0, log=True),
    "rule__error_floor": Real(1e-7, 1e-1, log=True),
}
BEFORE = {"kta": {"aggregation__learning_rate": Real(1e-3, 1e-1, log=True)}}
"""What default_space had before this was measured."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--splits", type=int, default=4)
    parser.add_argument("--settings", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--datasets", nargs="+", default=list(PLANETOID))
    parser.add_argument("--variants", nargs="+", default=["adj", "kta"])
    parser.add_argument("--curves", type=Path, help="folder to keep and find what was trained")
    given = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    rows, parts = [], {}
    for variant in given.variants:
        narrow = default_space(variant).replaced({"n_rounds": given.rounds, **BEFORE.get(variant, {})})
        for where, space in (("wide", narrow.replaced(WIDE)), ("default", narrow)):
            drawn = draw(space, given.settings)
            for name in given.datasets:
                found = []
                for split in range(given.splits):
                    data = development_data(datasets.load(name), split)
                    kept = given.curves and given.curves / f"{variant}-{name}-{where}-{split}.npy"
                    found.append(curves_of(data, space, drawn, given.seeds, given.device, kept))
                worth = [judge(*curves) for curves in found]
                if where == "default":
                    parts[variant, name] = thirds(drawn, np.mean(found, axis=(0, 1, 3)).max(axis=1))
                rows.append([variant, name, where, *(100 * np.mean(worth, axis=0)).round(2).tolist()])
                print(rows[-1], flush=True)
    head = ["variant", "data", "space", *WAYS]
    means = [
        ["mean", "", where, *np.mean([row[3:] for row in rows if row[2] == where], axis=0).round(2)]
        for where in ("wide", "default")
    ]
    where = [
        [variant, setting, *(parts[variant, name][setting] for name in given.datasets)]
        for variant in given.variants
        for setting in parts[variant, given.datasets[0]]
    ]
    text = [*table(head, [*rows, *means]), "", *table(["variant", "setting", *given.datasets], where)]
    publish("search_choices", "How to choose the winner of a search", text, [rows, where])


def draw(space: SearchSpace, n: int) -> list[dict[str, Any]]:
    """Return settings drawn evenly from a space."""
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    return [study.ask(space.distributions()).params for _ in range(n)]


def curves_of(
    data: Dataset,
    space: SearchSpace,
    drawn: list[dict[str, Any]],
    n_seeds: int,
    device: str,
    kept: Path | None = None,
) -> Curves:
    """Return the accuracy on the validation nodes, and on those held out, after every round."""
    if kept and kept.exists():
        return np.load(kept)
    models = [
        space.build(settings, seed).set_params(device=device) for settings in drawn for seed in range(n_seeds)
    ]
    both = [padded(curves_on(nodes, data, models), models[0].n_rounds) for nodes in (data.val, data.test)]
    curves = np.reshape(both, (2, len(drawn), n_seeds, -1))
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        np.save(kept, curves)
    return curves


def judge(chooser: NDArray[np.float64], other: NDArray[np.float64]) -> list[float]:
    """Return what each way to choose is worth, mean over many draws of settings and seeds."""
    random, worth = np.random.default_rng(0), []
    n_settings, n_seeds, _ = chooser.shape
    for _ in range(N_REPEATS):
        some = random.choice(n_settings, max(1, 2 * n_settings // 3), replace=False)
        seeds = random.permutation(n_seeds)
        told, true = chooser[some][:, seeds], other[some].mean(axis=1)
        one, few, all_ = told[:, 0], told[:, :N_FEW].mean(axis=1), told.mean(axis=1)
        best = np.argsort(-few.max(axis=1), kind="stable")[:N_BEST]
        choices = [
            highest(one),
            (one[:, -1].argmax(), -1),
            highest(few),
            among(best, highest(all_[best])),
            among(best, highest(smoothed(all_[best]))),
            among(best, (all_[best, -1].argmax(), -1)),
        ]
        worth.append([true[setting, round_] for setting, round_ in choices])
    return np.mean(worth, axis=0).tolist()


def thirds(drawn: list[dict[str, Any]], accuracy: NDArray[np.float64]) -> dict[str, str]:
    """Return for every setting the mean accuracy, in percent, where it is low, middling and high."""
    found = {}
    for name in sorted(drawn[0]):
        order = np.argsort([settings[name] for settings in drawn], kind="stable")
        found[name] = " / ".join(f"{100 * accuracy[part].mean():.1f}" for part in np.array_split(order, 3))
    return found


def highest(curves: NDArray[np.float64]) -> Choice:
    """Return the setting and the round with the highest accuracy."""
    return divmod(int(curves.argmax()), curves.shape[1])


def among(settings: NDArray[np.int64], choice: Choice) -> Choice:
    """Return a choice among some settings as one among all."""
    return int(settings[choice[0]]), choice[1]


def smoothed(curves: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the mean over the rounds nearby."""
    return uniform_filter1d(curves, 2 * N_NEIGHBOURS + 1, axis=1, mode="nearest")


if __name__ == "__main__":
    main()
