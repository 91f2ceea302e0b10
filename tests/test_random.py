from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gbgnn._random import (
    Purpose,
    RoundSeeds,
    Seeds,
    as_int32,
    as_uniform,
    derive_key,
    derive_keys,
    derive_seeds,
    draw_bits,
    dropout_threshold,
    extend_keys,
    generator,
    hash_grid,
    mix,
    mix_,
    uniform,
)


def test_every_round_purpose_and_attempt_has_a_seed_of_its_own() -> None:
    seeds = Seeds(7)
    drawn = [seeds.hop(t) for t in range(1, 200)]
    drawn += [seeds.head(t, attempt) for t in range(1, 200) for attempt in range(4)]
    assert len(set(drawn)) == len(drawn)
    assert all(0 <= seed < 2**63 for seed in drawn)


def test_seed_of_a_round_depends_on_the_root_alone() -> None:
    assert Seeds(1).head(5) == Seeds(1).head(5)
    assert Seeds(1).head(5) != Seeds(2).head(5)


def test_seeds_of_members_are_those_of_each() -> None:
    assert list(RoundSeeds([Seeds(0), Seeds(1)], t=2)) == [Seeds(0).hop(2), Seeds(1).hop(2)]


def test_generator_is_seeded() -> None:
    first, second = (torch.rand(3, generator=generator(4)) for _ in range(2))
    assert torch.equal(first, second)


def table(n_rows: int, n_columns: int, *path: int) -> torch.Tensor:
    return uniform(n_rows, n_columns, derive_key(*path), torch.float64)


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=50))
def test_tensors_are_mixed_as_numbers_are(numbers: list[int]) -> None:
    mixed = mix_(torch.tensor([as_int32(n) for n in numbers], dtype=torch.int32))
    assert mixed.tolist() == mix(np.array(numbers, np.uint32)).view(np.int32).tolist()
    again = torch.tensor([as_int32(n) for n in numbers], dtype=torch.int32)
    assert torch.equal(mix_(again, torch.empty_like(again)), mixed)


@given(st.integers(0, 2**32 - 1), st.integers(0, 31))
def test_mixing_can_be_undone_so_no_two_numbers_meet(number: int, bit: int) -> None:
    def undo_shift(value: int, shift: int) -> int:
        found = value
        for _ in range(32 // shift + 1):
            found = value ^ (found >> shift)
        return found

    mixed, other = mix(np.array([number, number ^ (1 << bit)], np.uint32)).tolist()
    value = undo_shift(mixed, 16)
    for shift, factor in ((15, 0x846CA68B), (16, 0x7FEB352D)):
        value = undo_shift(value * pow(factor, -1, 2**32) % 2**32, shift)
    assert value == number
    assert mixed != other


def test_one_changed_bit_changes_half_of_all_bits() -> None:
    random = torch.Generator().manual_seed(0)
    numbers = torch.randint(-(2**31), 2**31 - 1, (2000,), generator=random).int()
    for bit in range(32):
        flipped = mix_(numbers.clone()) ^ mix_(numbers ^ as_int32(1 << bit))
        shares = torch.stack([((flipped >> k) & 1).double().mean() for k in range(32)])
        assert (shares - 0.5).abs().max() < 0.08


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**31))
def test_keys_are_int32_and_depend_on_all_bits_of_the_seed(seed: int, step: int) -> None:
    key = derive_key(seed, Purpose.ORDER, step)
    assert -(2**31) <= key < 2**31
    assert key != derive_key(seed ^ 1, Purpose.ORDER, step)
    assert key != derive_key(seed ^ 2**40, Purpose.ORDER, step)
    assert key != derive_key(seed, Purpose.ORDER, step + 1)
    assert key != derive_key(seed, Purpose.START, step)


@given(st.lists(st.integers(0, 2**63 - 1), min_size=1, max_size=9), st.integers(0, 2**31 - 1))
def test_keys_of_many_are_those_of_each(seeds: list[int], step: int) -> None:
    steps = np.array([step, step // 2], dtype=np.uint32)
    keys = extend_keys(derive_keys(seeds)[:, None], Purpose.DROPOUT, steps).view(np.int32)
    expected = [[derive_key(seed, Purpose.DROPOUT, each) for each in (step, step // 2)] for seed in seeds]
    assert keys.tolist() == expected


@pytest.mark.parametrize("path", [(0,), (1, 2, 3), (2**62, Purpose.WEIGHTS, 1)])
def test_draws_are_uniform(path: tuple[int, ...]) -> None:
    drawn = table(300, 200, *path).flatten()
    n = len(drawn)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    for power in (1, 2, 3, 4):
        deviation = math.sqrt((1 / (2 * power + 1) - 1 / (power + 1) ** 2) / n)
        assert float(drawn.pow(power).mean()) == pytest.approx(1 / (power + 1), abs=4 * deviation)
    counts = torch.histc(drawn, bins=100, min=0, max=1)
    chi_square = float(((counts - n / 100) ** 2 / (n / 100)).sum())
    assert abs(chi_square - 99) < 5 * math.sqrt(2 * 99)


def test_rows_columns_and_streams_are_uncorrelated() -> None:
    drawn = table(100, 100, 5)
    streams = torch.stack([table(100, 100, 5, step).flatten() for step in range(20)])
    for rows, n in ((drawn, 100), (drawn.T, 100), (streams, 10_000)):
        correlations = torch.corrcoef(rows) - torch.eye(len(rows))
        assert correlations.abs().max() < 5 / math.sqrt(n)


def test_neighbours_are_uncorrelated() -> None:
    drawn = table(200, 200, 1) - 0.5
    for here, there in ((drawn[1:], drawn[:-1]), (drawn[:, 1:], drawn[:, :-1]), (drawn, drawn.T)):
        assert abs(12 * float((here * there).mean())) < (1 / 10 if there is drawn.T else 1 / 40)


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 2**40))
def test_larger_tables_begin_with_smaller_ones(n_rows: int, n_columns: int, seed: int) -> None:
    assert torch.equal(table(9, 9, seed)[:n_rows, :n_columns], table(n_rows, n_columns, seed))


def test_some_rows_are_those_of_the_table_and_stay_as_they_are() -> None:
    rows = torch.tensor([7, 0, 3], dtype=torch.int32)
    assert torch.equal(hash_grid(rows, 4), hash_grid(torch.arange(8), 4)[[7, 0, 3]])
    assert rows.tolist() == [7, 0, 3]


def test_precisions_draw_the_same_numbers() -> None:
    single, double = (uniform(50, 50, derive_key(3), dtype) for dtype in (torch.float32, torch.float64))
    assert torch.equal(single.double(), double)


def test_a_key_per_table_draws_what_each_key_alone_draws() -> None:
    base, keys = hash_grid(torch.arange(6), 5), [derive_key(s) for s in range(3)]
    together = draw_bits(base, torch.tensor(keys, dtype=torch.int32)[:, None, None])
    assert all(torch.equal(mine, draw_bits(base, key)) for mine, key in zip(together, keys, strict=True))


@pytest.mark.parametrize("share", [0.0, 1e-3, 0.25, 0.5, 0.9])
def test_cut_off_leaves_its_share_below(share: float) -> None:
    draws = draw_bits(hash_grid(torch.arange(300), 300), derive_key(1))
    below = float((draws < dropout_threshold(share)).double().mean())
    assert below == pytest.approx(share, abs=4 * math.sqrt(share * (1 - share) / 90_000))


def test_all_draws_are_multiples_in_the_unit_interval() -> None:
    ends = torch.tensor([-(2**31), 0, 2**31 - 1], dtype=torch.int32)
    assert as_uniform(ends, torch.float32).tolist() == [0.0, 0.5, 1 - 2**-24]


def test_cut_off_of_all_but_everything_is_an_int32() -> None:
    assert dropout_threshold(1 - 2**-53) == 2**31 - 1


WORDS = st.integers(0, 2**32 - 1)


@given(st.lists(WORDS, min_size=1, max_size=5), st.lists(WORDS, min_size=1, max_size=4))
def test_many_seeds_are_those_of_numpy_one_by_one(roots: list[int], path: list[int]) -> None:
    states = [np.random.SeedSequence(root, spawn_key=path).generate_state(1, np.uint64)[0] for root in roots]
    assert derive_seeds(roots, *path) == [int(state) >> 1 for state in states]


def test_the_heads_of_many_models_have_the_seeds_they_have_alone() -> None:
    members = [Seeds(root) for root in (*range(20), 2**32 - 1)]
    for t, attempt in ((1, 0), (7, 0), (7, 3)):
        assert Seeds.heads(members, t, attempt) == [own.head(t, attempt) for own in members]
    larger = [*members, Seeds(2**40 + 3)]
    assert Seeds.heads(larger, 5) == [own.head(5) for own in larger]
