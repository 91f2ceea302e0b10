from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn.aggregation import KernelTargetAlignment, PolynomialHop, alignment
from gbgnn.aggregation.alignment import AlignmentProblem
from gbgnn.errors import ParameterError
from gbgnn.problem import Problem
from gbgnn.propagation import AugmentedAdjacency, Propagator, SparseRows
from gbgnn.tasks import MultiLabel, Regression
from gbgnn.testing import check_aggregation, make_context, make_problem, make_round, two_blocks


def dense_alignment(
    P: torch.Tensor, X: torch.Tensor, w: torch.Tensor, train: object, y: object
) -> torch.Tensor:
    """The definition, through dense powers and N x N products, for autograd."""
    Z = w[0] * X
    for k, coefficient in enumerate(w[1:]):
        Z = Z + coefficient * torch.linalg.matrix_power(P, 2**k) @ X
    K = Z[train] @ Z[train].T
    one_hot = torch.nn.functional.one_hot(y[train]).double()
    target = one_hot @ one_hot.T
    return (K * target).sum() / (K.norm() * target.norm())


def random_problem(
    seed: int, n_features: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, Problem]:
    graph, labels = two_blocks(24, n_classes=3, seed=seed, n_features=n_features)
    train = np.random.default_rng(seed).choice(24, size=9, replace=False)
    problem = make_problem(graph, labels, train)
    P = torch.tensor(AugmentedAdjacency().build(graph.adjacency).toarray())
    return P, problem.inputs.features.dense(), torch.tensor(train), torch.tensor(labels), problem


def closed_form(P: torch.Tensor, X: torch.Tensor, train: torch.Tensor, y: torch.Tensor) -> AlignmentProblem:
    powers = [X, *(torch.linalg.matrix_power(P, 2**k) @ X for k in range(4))]
    codes = torch.nn.functional.one_hot(y[train], 3).double()
    return AlignmentProblem.build(torch.stack([Z[train] for Z in powers]), codes)


def learn(problem: Problem, X: torch.Tensor | None = None, **settings_: object) -> PolynomialHop:
    return KernelTargetAlignment(**settings_).fit(make_context(problem, X))


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    n_features=st.sampled_from([3, 30]),  # fewer, and more, columns than labelled rows
    weights=st.lists(st.floats(-3, 3), min_size=5, max_size=5).filter(lambda w: max(map(abs, w)) > 0.1),
)
def test_closed_form_equals_autograd_on_dense_matrices(
    seed: int, n_features: int, weights: list[float]
) -> None:
    P, X, train, y, _ = random_problem(seed, n_features)
    w = torch.tensor(weights, dtype=torch.float64, requires_grad=True)
    expected = dense_alignment(P, X, w, train, y)
    expected.backward()
    value, gradient = closed_form(P, X, train, y).value_and_gradient(w.detach())
    assert float(value) == pytest.approx(expected.item(), abs=1e-9)
    np.testing.assert_allclose(gradient, w.grad.numpy(), atol=1e-7)


@pytest.mark.parametrize("n_features", [3, 30])
def test_problems_of_several_members_are_those_of_each(n_features: int) -> None:
    each = [closed_form(*random_problem(seed, n_features)[:4]) for seed in range(3)]
    terms, codes = torch.randn(3, 5, 9, n_features, dtype=torch.float64), torch.eye(3).repeat(3, 1).double()
    together, weights = AlignmentProblem.build(terms, codes), torch.rand(3, 5, dtype=torch.float64)
    for i in range(3):
        alone = AlignmentProblem.build(terms[i], codes)
        for name in ("numerator", "denominator", "overlaps"):
            torch.testing.assert_close(getattr(together, name)[i], getattr(alone, name))
        for mine, other in zip(
            together.value_and_gradient(weights), alone.value_and_gradient(weights[i]), strict=True
        ):
            torch.testing.assert_close(mine[i], other)
        torch.testing.assert_close(together.rescale(weights)[i], alone.rescale(weights[i]))
    joined = AlignmentProblem.join(
        [AlignmentProblem.build(terms[:1], codes), AlignmentProblem.build(terms[1:], codes)]
    )
    torch.testing.assert_close(joined.denominator, together.denominator)
    assert len({float(problem.value(weights[0])) for problem in each}) == 3


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "rmsprop"])
def test_trajectory_equals_autograd_on_dense_matrices(optimizer: str) -> None:
    P, X, train, y, problem = random_problem(3, 30)
    w = torch.ones(5, dtype=torch.float64, requires_grad=True)
    steps = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "rmsprop": torch.optim.RMSprop}
    stepper = steps[optimizer]([w], lr=0.05)
    for epochs in range(1, 16):
        stepper.zero_grad()
        (-dense_alignment(P, X, w, train, y)).backward()
        stepper.step()
        hop = learn(problem, optimizer=optimizer, learning_rate=0.05, epochs=epochs, rescale=False)
        np.testing.assert_allclose(hop.coefficients, w.detach().numpy(), rtol=1e-8)


@settings(max_examples=25)
@given(seed=st.integers(0, 10_000))
def test_exact_solver_beats_every_gradient_run_and_random_search(seed: int) -> None:
    P, X, train, y, problem = random_problem(seed, 8)
    hop = learn(problem, solver="exact")
    reached = closed_form(P, X, train, y)
    tries = np.random.default_rng(seed).normal(size=(200, 5))
    best = float(reached.value(torch.from_numpy(np.vstack([tries, np.ones(5)]))).max())
    assert hop.alignment >= best - 1e-7
    ascended = learn(problem, epochs=50)
    assert hop.alignment >= ascended.alignment - 1e-7
    assert float(reached.value(torch.tensor(hop.coefficients, dtype=torch.float64))) == pytest.approx(
        hop.alignment, abs=1e-9
    )


def test_gradient_steps_raise_the_alignment() -> None:
    *_, problem = random_problem(1, 8)
    values = [learn(problem, epochs=n).alignment for n in (0, 5, 50)]
    assert values[0] < values[1] < values[2] <= 1


def test_rescaling_keeps_the_norm_of_the_labelled_rows_over_a_hundred_rounds() -> None:
    _, X, train, _, problem = random_problem(2, 8)
    norm = X[train].norm()
    part = KernelTargetAlignment(epochs=5)
    for _ in range(100):
        X = part.step(make_context(problem, X))[1].dense()
    assert X[train].norm() == pytest.approx(norm)
    raw = learn(problem, X, epochs=0, rescale=False)
    assert raw.coefficients == (1.0,) * 5


@pytest.mark.parametrize("solver", ["gradient", "exact"])
def test_learned_coefficients_are_free_to_be_tuned(solver: str) -> None:
    *_, problem = random_problem(2, 8)
    assert learn(problem, solver=solver).free == "coefficients"


def test_zero_representation_has_alignment_zero() -> None:
    _, X, _, _, problem = random_problem(2, 8)
    hop = learn(problem, torch.zeros_like(X))
    assert hop.alignment == 0
    assert np.isfinite(hop.coefficients).all()


@pytest.mark.parametrize("is_sparse", [False, True])
@pytest.mark.parametrize("degree", [0, 3])
def test_powers_are_kept_from_learning_to_mixing_where_they_are_small(
    degree: int, is_sparse: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where they are large they are computed again, with the same result to the bit; powers are dense."""
    multiply, products = Propagator.__call__, []

    def count(P: Propagator, X: torch.Tensor, out: torch.Tensor | None = None) -> torch.Tensor:
        products.append(X.shape)
        return multiply(P, X, out)

    monkeypatch.setattr(Propagator, "__call__", count)
    *_, problem = random_problem(2, 8)
    context, part = make_context(problem), KernelTargetAlignment(degree=degree)
    n_bytes = context.X.nbytes
    if is_sparse:
        few = sp.csr_array(context.X.dense().clamp_min(1) - 1)
        context = replace(context, X=SparseRows.from_scipy(few, dtype=torch.float64))
        assert context.X.nbytes < n_bytes
    kept_hop, kept = part.step(context)
    assert len(products) == 2**degree
    monkeypatch.setattr(alignment, "KEPT_BYTES", (degree + 2) * n_bytes - 1)
    hop, streamed = part.step(context)
    assert len(products) == 3 * 2**degree
    assert hop == kept_hop
    assert torch.equal(streamed.dense(), kept.dense())


def test_numbers_and_several_labels_are_aligned_with_by_their_own_likeness() -> None:
    """The Gram matrix of the targets is that of standardised numbers, or of 0/1 rows."""
    graph, _ = two_blocks(24, seed=3, n_features=8)
    P = torch.tensor(AugmentedAdjacency().build(graph.adjacency).toarray())
    X, train = torch.tensor(graph.features), np.arange(9)
    numbers = np.random.default_rng(0).normal(3.0, 5.0, size=(24, 2))
    for task, y in ((Regression(), numbers), (MultiLabel(), (numbers > 3).astype(float))):
        hop = KernelTargetAlignment(rescale=False).fit(make_round(graph, y, train, task=task))
        codes = torch.tensor(task.fit(y).encode(y[train]))
        Z = hop.coefficients[0] * X
        for k, coefficient in enumerate(hop.coefficients[1:]):
            Z = Z + coefficient * torch.linalg.matrix_power(P, 2**k) @ X
        K, target = Z[train] @ Z[train].T, codes @ codes.T
        assert hop.alignment == pytest.approx(float((K * target).sum() / (K.norm() * target.norm())))


@pytest.mark.parametrize("part", [KernelTargetAlignment(), KernelTargetAlignment(degree=1, solver="exact")])
def test_aggregation_keeps_its_contract(part: KernelTargetAlignment) -> None:
    check_aggregation(part)


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        ({"degree": -1}, "degree must be an integer from 0 to 10; got -1"),
        ({"solver": "exat"}, "solver must be one of gradient, exact; got 'exat'. Did you mean 'exact'?"),
        ({"optimizer": "adagrad"}, "optimizer must be one of adam, rmsprop, sgd; got 'adagrad'."),
        ({"learning_rate": 0}, r"learning_rate must be in \(0, inf\); got 0"),
        ({"epochs": 1.5}, "epochs must be an integer >= 0; got 1.5"),
    ],
)
def test_settings_are_checked(settings_: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=f"KernelTargetAlignment.{message}"):
        KernelTargetAlignment(**settings_).check()
