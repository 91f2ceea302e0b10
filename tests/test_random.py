from __future__ import annotations

import torch

from gbgnn._random import Seeds, generator


def test_every_round_purpose_and_attempt_has_a_seed_of_its_own() -> None:
    seeds = Seeds(7)
    drawn = [seeds.hop(t) for t in range(1, 200)]
    drawn += [seeds.head(t, attempt) for t in range(1, 200) for attempt in range(4)]
    assert len(set(drawn)) == len(drawn)
    assert all(0 <= seed < 2**63 for seed in drawn)


def test_seed_of_a_round_depends_on_the_root_alone() -> None:
    assert Seeds(1).head(5) == Seeds(1).head(5)
    assert Seeds(1).head(5) != Seeds(2).head(5)


def test_generator_is_seeded() -> None:
    first, second = (torch.rand(3, generator=generator(4)) for _ in range(2))
    assert torch.equal(first, second)
