"""One seed, and from it an independent stream for every place that draws random numbers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np
import torch
from sklearn.utils import check_random_state

from gbgnn.errors import ParameterError


class _Stream(IntEnum):
    HOP = 0
    HEAD = 1
    TUNING = 2


@dataclass(frozen=True)
class Seeds:
    """Derives one seed per round and purpose, so that a round never depends on how many came before.

    That is why a fit stopped at round t equals a fit that was asked for t rounds.

    Examples
    --------
    >>> Seeds(0).head(3) == Seeds(0).head(3), Seeds(0).head(3) == Seeds(0).head(4)
    (True, False)
    """

    root: int

    def hop(self, t: int) -> int:
        """Seed of the aggregation of round ``t``."""
        return self._derive(_Stream.HOP, t, 0)

    def head(self, t: int, attempt: int = 0) -> int:
        """Seed of the learner of round ``t``; a retry is another ``attempt``."""
        return self._derive(_Stream.HEAD, t, attempt)

    def tuning(self) -> int:
        """Seed of fine-tuning."""
        return self._derive(_Stream.TUNING, 0, 0)

    def _derive(self, stream: _Stream, t: int, attempt: int) -> int:
        sequence = np.random.SeedSequence(self.root, spawn_key=(int(stream), t, attempt))
        return int(sequence.generate_state(1, dtype=np.uint64)[0] >> np.uint64(1))


def generator(seed: int, device: torch.device | str = "cpu") -> torch.Generator:
    """Build a torch generator; it lives on ``device`` because torch requires that of its users."""
    return torch.Generator(device=device).manual_seed(seed)


def root_seed(random_state: Any) -> int:
    """Return the seed that scikit-learn's ``random_state`` stands for: itself, or a draw.

    Examples
    --------
    >>> root_seed(7)
    7
    """
    if isinstance(random_state, (int, np.integer)) and random_state >= 0:
        return int(random_state)
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError as error:
        raise ParameterError(
            "GBGNNClassifier.random_state must be None, an integer >= 0 or a RandomState; got "
            f"{random_state!r}."
        ) from error
