from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.preprocessing import StandardScaler

from gbgnn import MLP, GBGNNClassifier, datasets
from gbgnn.errors import ParameterError
from gbgnn.learners.inputs import InputMap, RowBasis, _rotation, is_smaller, largest_eigenvalue, norm
from gbgnn.rounds import RoundContext
from gbgnn.testing import learner_round

ROWS = torch.randn(4, 8, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 3
WIDE = torch.randn(4, 8, 30, generator=torch.Generator().manual_seed(1), dtype=torch.float64) + 1


def random_rows(n_rows: int, n_columns: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((n_rows, n_columns)))


def round_on(X: torch.Tensor, n_rows: int, n_classes: int = 3, **more: object) -> RoundContext:
    rows = torch.arange(n_rows)
    return learner_round(X, rows % n_classes, rows=rows, **more)


@settings(max_examples=50)
@given(st.integers(1, 12), st.integers(1, 40), st.integers(0, 99))
def test_inner_products_of_the_rows_stay_what_they_are(n_rows: int, n_more: int, seed: int) -> None:
    A = random_rows(n_rows, n_rows + n_more, seed)
    Z = RowBasis.of(A).coordinates(A)
    # Up to the ridge, of which the smallest direction has the largest share.
    size = float(A.square().sum() / n_rows)
    torch.testing.assert_close(Z @ Z.T, A @ A.T, rtol=0, atol=3e-5 * size)


@settings(max_examples=50)
@given(st.integers(1, 12), st.integers(1, 40), st.integers(0, 99))
def test_unfolded_weights_do_what_they_do_on_coordinates(n_rows: int, n_more: int, seed: int) -> None:
    A, X = random_rows(n_rows, n_rows + n_more, seed), random_rows(7, n_rows + n_more, seed + 1)
    basis, weight = RowBasis.of(A), random_rows(n_rows, 5, seed + 2)
    torch.testing.assert_close(X @ basis.unfold(weight), basis.coordinates(X) @ weight)


def test_the_basis_is_orthonormal_and_blind_to_what_no_row_has() -> None:
    A = random_rows(5, 30)
    basis = RowBasis.of(A)
    B = basis.unfold(torch.eye(5, dtype=A.dtype))
    torch.testing.assert_close(B.T @ B, torch.eye(5, dtype=A.dtype), rtol=0, atol=1e-4)
    outside = torch.linalg.svd(A)[2][5:]
    assert basis.coordinates(outside).abs().max() < 1e-10


def test_rows_that_depend_on_each_other_do_no_harm() -> None:
    A = random_rows(6, 20)
    A = torch.cat([A, A[:2], torch.zeros(1, 20, dtype=A.dtype)])
    A = A - A.mean(dim=0)
    Z = RowBasis.of(A).coordinates(A)
    torch.testing.assert_close(Z @ Z.T, A @ A.T, rtol=0, atol=3e-4)
    zero = torch.zeros(3, 20)
    assert RowBasis.of(zero).coordinates(zero).abs().max() == 0


def test_what_is_no_number_stays_so() -> None:
    A = random_rows(3, 9)
    A[1, 4] = torch.nan
    assert RowBasis.of(A).coordinates(A).isnan().any()


def test_bases_of_many_sets_of_rows_are_each_as_if_alone() -> None:
    A = torch.stack([random_rows(4, 11, seed) for seed in range(3)])
    together = RowBasis.of(A).coordinates(A)
    for i in range(3):
        torch.testing.assert_close(together[i], RowBasis.of(A[i]).coordinates(A[i]))


@pytest.mark.parametrize("n", [1, 2, 17])
def test_the_turn_is_orthogonal_and_always_the_same(n: int) -> None:
    turn = _rotation(n, torch.device("cpu"))
    np.testing.assert_allclose(turn @ turn.T, np.eye(n), atol=1e-12)
    _rotation.cache_clear()
    assert torch.equal(_rotation(n, torch.device("cpu")), turn)


def test_where_there_are_as_many_rows_as_columns_the_basis_is_the_features() -> None:
    X = random_rows(20, 8)
    heads = [MLP(epochs=5, basis=basis).fit(round_on(X, 20)) for basis in ("features", "rows")]
    for mine, other in zip(heads[0].state().values(), heads[1].state().values(), strict=True):
        assert torch.equal(mine, other)
    assert not is_smaller("rows", 20, 8)


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("hidden_layers", [0, 1, 2])
@pytest.mark.parametrize("batch_size", [None, 5])
def test_training_is_that_of_a_network_on_the_coordinates(
    plainly, standardize: bool, hidden_layers: int, batch_size: int | None
) -> None:
    """By hand: coordinates first, then plain torch; weights are drawn as for the 50 columns."""
    X = random_rows(12, 50)
    context = round_on(X, 12, seed=3)
    learner = MLP(
        hidden_layers=hidden_layers, units=6, epochs=8, standardize=standardize, batch_size=batch_size
    )
    shift = X.mean(dim=0) if standardize else torch.zeros(50, dtype=X.dtype)
    size = (X - shift).square().sum(dim=1).mean().sqrt() if standardize else 1.0
    rows, task = (X - shift) / size, context.weak_task
    Z = RowBasis.of(rows).coordinates(rows)
    layers = plainly.train(learner, Z, task.targets, task.weights, task.loss, 3, seed=3, fan_in=50)
    torch.testing.assert_close(learner.fit(context)(X), plainly.apply(layers, Z))


def test_patience_looks_at_the_same_coordinates() -> None:
    X = random_rows(30, 80)
    watched = torch.arange(12, 30)
    context = round_on(X, 12, val=(watched, watched % 3))
    head = MLP(epochs=60, patience=5, basis="rows", learning_rate=0.05).fit(context)
    full = MLP(epochs=60, basis="rows", learning_rate=0.05).fit(context)
    mine, other = (context.weak_task.loss.mean(h(X[12:]), watched % 3) for h in (head, full))
    assert mine < other


def test_a_model_is_as_good_in_either_basis() -> None:
    data = datasets.csbm(n_nodes=600, per_class=10, n_features=200, separation=1.5, seed=0)
    scores = {}
    for basis in ("features", "rows"):
        model = GBGNNClassifier(learner=MLP(basis=basis), n_rounds=10, random_state=0, device="cpu")
        model.fit(data.train, data.y[data.train], graph=data.graph)
        scores[basis] = model.score(data.test, data.y[data.test])
    assert scores["rows"] > scores["features"] - 0.03
    assert scores["rows"] > 0.6


def test_an_unknown_basis_is_refused() -> None:
    with pytest.raises(ParameterError, match="MLP.basis must be one of .*features.*rows.*got 'row'"):
        MLP(basis="row").check()


def test_standardised_rows_are_centred_and_of_size_one() -> None:
    rows = InputMap.fit(ROWS[0], standardize=True, basis="features")(ROWS[0])
    assert rows.mean(dim=0).abs().max() < 1e-12
    assert float(rows.square().sum(dim=1).mean()) == pytest.approx(1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_columns_may_be_standardised_one_by_one(dtype: torch.dtype) -> None:
    rows = ROWS[0] * torch.tensor([1.0, 1e-6, 1e6, 3.0, 0.0], dtype=torch.float64)
    rows = (rows + torch.tensor([0.0, 1e-4, -1e5, 5.0, 0.1], dtype=torch.float64)).to(dtype)
    inputs = InputMap.fit(rows, standardize=True, basis="features", scale_by="columns")
    expected = StandardScaler().fit_transform(rows.double().numpy())
    expected[:, 4] = 0.0  # it is the same in all rows
    np.testing.assert_allclose(inputs(rows), expected, rtol=1e-3, atol=1e-3)
    other = rows.clone()
    other[:, 4] = 9.0
    assert not inputs(other)[:, 4].any(), "a column that tells nothing in the labelled rows has a say"


def test_other_rows_are_mapped_by_what_the_labelled_ones_have_in_common() -> None:
    labelled, other = ROWS[0], ROWS[1]
    inputs = InputMap.fit(labelled, standardize=True, basis="features")
    shift = labelled.mean(dim=0)
    size = (labelled - shift).square().sum(dim=1).mean().sqrt()
    torch.testing.assert_close(inputs(other), (other - shift) / size)


def test_rows_may_stay_as_they_are() -> None:
    rows = ROWS[0]
    inputs = InputMap.fit(rows, standardize=False, basis="rows")
    assert inputs(rows) is rows
    weight, bias = torch.ones(3, 5), torch.ones(3)
    assert inputs.fold(weight, bias) == (weight, bias)
    assert inputs.member(3)(rows) is rows


def test_rows_without_spread_do_not_divide_by_zero() -> None:
    same = torch.full((2, 8, 5), 7.0)
    assert not InputMap.fit(same, standardize=True, basis="rows")(same).any()


def test_coordinates_are_taken_where_there_are_fewer_rows_than_columns() -> None:
    for rows, n_columns in ((WIDE[0], 8), (ROWS[0], 5)):
        inputs = InputMap.fit(rows, standardize=True, basis="rows")
        assert inputs(rows).shape == (8, n_columns)
        assert (inputs.basis is None) == (n_columns == 5)
        assert InputMap.fit(rows, standardize=True, basis="features").basis is None
    centred = InputMap.fit(WIDE[0], standardize=True, basis="features")(WIDE[0])
    expected = RowBasis.of(centred).coordinates(centred)
    found = InputMap.fit(WIDE[0], standardize=True, basis="rows")(WIDE[0])
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("basis", ["rows", "features"])
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("rows", [ROWS, WIDE], ids=["tall", "wide"])
@pytest.mark.parametrize("scale_by", ["rows", "columns"])
def test_many_sets_of_rows_are_each_as_if_alone(
    rows: torch.Tensor, basis: str, standardize: bool, scale_by: str
) -> None:
    together = InputMap.fit(rows, standardize=standardize, basis=basis, scale_by=scale_by)
    for i, own in enumerate(rows):
        alone = InputMap.fit(own, standardize=standardize, basis=basis, scale_by=scale_by)
        torch.testing.assert_close(together(rows)[i], alone(own))
        torch.testing.assert_close(together.member(i)(own), alone(own))
        assert torch.equal(alone.member(i)(own), alone(own))


@pytest.mark.parametrize("basis", ["rows", "features"])
@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("is_batched", [True, False])
@pytest.mark.parametrize("scale_by", ["rows", "columns"])
def test_a_folded_layer_does_for_raw_rows_what_it_did_for_mapped_ones(
    basis: str, standardize: bool, is_batched: bool, scale_by: str
) -> None:
    rows = WIDE if is_batched else WIDE[0]
    inputs = InputMap.fit(rows, standardize=standardize, basis=basis, scale_by=scale_by)
    random, mapped = torch.Generator().manual_seed(2), inputs(rows)
    weight = torch.randn(*rows.shape[:-2], 6, mapped.shape[-1], generator=random, dtype=torch.float64)
    bias = torch.randn(*rows.shape[:-2], 6, generator=random, dtype=torch.float64)
    raw_weight, raw_bias = inputs.fold(weight, bias)
    expected = mapped @ weight.mT + bias[..., None, :]
    torch.testing.assert_close(rows @ raw_weight.mT + raw_bias[..., None, :], expected)


@settings(max_examples=50)
@given(arrays(np.float64, (4,), elements=st.floats(1e-3, 1)), st.sampled_from([1e-250, 1.0, -1e250]))
def test_norm_survives_any_unit(values: np.ndarray, unit: float) -> None:
    expected = math.sqrt(math.fsum(values**2)) * abs(unit)
    assert norm(torch.tensor(values) * unit) == pytest.approx(expected)


def test_norm_of_zeros_is_zero() -> None:
    assert norm(torch.zeros(3)) == 0


def test_single_precision_is_added_up_in_double() -> None:
    assert norm(torch.full((4,), 1e-30)) == pytest.approx(2e-30)


@settings(max_examples=30)
@given(st.integers(1, 12), st.integers(0, 10**6))
def test_power_iteration_comes_near_the_largest_eigenvalue_from_below(n: int, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    A = torch.randn(n, n, generator=random, dtype=torch.float64)
    S, start = A @ A.t(), torch.randn(n, generator=random, dtype=torch.float64)
    true = float(torch.linalg.eigvalsh(S)[-1])
    found = largest_eigenvalue(S.matmul, start, n_steps=200)
    assert 0.9 * true <= found <= true * (1 + 1e-12)


def test_the_zero_operator_has_eigenvalue_zero() -> None:
    assert largest_eigenvalue(torch.zeros(2, 2).matmul, torch.ones(2), n_steps=5) == 0
