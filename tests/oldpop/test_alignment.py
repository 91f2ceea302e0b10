from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from gbgnn.population.alignment import AlignedHops, Alignments
from gbgnn.population.members import Members
from gbgnn.population.optimizer import Coefficients
from torch.nn.functional import one_hot

from gbgnn import GBGNNClassifier, KernelTargetAlignment
from gbgnn.aggregation import AlignmentProblem
from gbgnn.population import PopulationInputs, alignment
from gbgnn.testing import make_context

Build = Callable[..., GBGNNClassifier]
Inputs = Callable[..., PopulationInputs]
METHODS = ["sgd", "adam", "rmsprop", "adam"]


def make_terms(n_rows: int, n_columns: int, n_members: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    terms = torch.randn(n_members, 3, n_rows, n_columns, generator=random, dtype=torch.float64)
    return terms + 1, torch.arange(n_rows) % 3


@pytest.mark.parametrize(("n_rows", "n_columns"), [(6, 9), (9, 4)])
def test_forms_values_and_gradients_are_those_of_every_member(n_rows: int, n_columns: int) -> None:
    terms, targets = make_terms(n_rows, n_columns)
    found = Alignments.joined([Alignments.of(part, targets, 3) for part in terms.split([1, 3])])
    weights = torch.linspace(-1, 2, 12, dtype=torch.float64).view(4, 3)
    values, gradients = found.value_and_gradient(weights)
    for i, each in enumerate(terms):
        alone = AlignmentProblem(each, one_hot(targets, 3))
        value, gradient = alone.value_and_gradient(weights[i].numpy())
        np.testing.assert_allclose(found.numerator[i], alone.numerator, rtol=1e-12)
        np.testing.assert_allclose(found.denominator[i].flatten(), alone.denominator.flatten(), rtol=1e-10)
        np.testing.assert_allclose(found.overlaps[i], alone.overlaps, rtol=1e-12)
        assert float(values[i]) == pytest.approx(value, rel=1e-12)
        np.testing.assert_allclose(gradients[i], gradient, rtol=1e-9, atol=1e-12)


def test_weights_that_cancel_all_rows_have_no_slope() -> None:
    terms, targets = make_terms(5, 4)
    values, gradients = Alignments.of(0 * terms, targets, 3).value_and_gradient(torch.ones(4, 3).double())
    assert not values.any()
    assert not gradients.any()


def test_steps_are_those_of_every_member_and_so_is_their_number() -> None:
    terms, targets = make_terms(8, 9)
    rates, epochs = torch.tensor([0.1, 0.05, 0.02, 0.3]), torch.tensor([9, 4, 7, 0])
    found = Alignments.of(terms, targets, 3)
    weights = found.ascend(Coefficients.of(METHODS, rates), epochs, 9)
    for i, each in enumerate(terms):
        alone = KernelTargetAlignment(
            degree=1, optimizer=METHODS[i], learning_rate=float(rates[i]), epochs=int(epochs[i])
        )
        expected = alone._ascend(AlignmentProblem(each, one_hot(targets, 3)))
        np.testing.assert_allclose(weights[i], expected, rtol=1e-10)


def test_rescaled_weights_keep_the_norm_of_the_rows() -> None:
    terms, targets = make_terms(8, 9)
    weights = torch.tensor([[1.0, 1, 1], [1, -1, 0.5], [0, 0, 1], [1, 0, 0]]).double()
    mixed = torch.einsum("mk,mknc->mnc", Alignments.of(terms, targets, 3).rescaled(weights), terms)
    torch.testing.assert_close(mixed.flatten(1).norm(dim=1), terms[:, 0].flatten(1).norm(dim=1))


def test_weights_that_cancel_all_rows_are_left_as_they_are() -> None:
    terms, targets = make_terms(8, 9)
    terms[:, 1] = -terms[:, 0]
    weights = torch.tensor([[1.0, 1.0, 0.0]]).double().expand(4, -1)
    assert torch.equal(Alignments.of(terms, targets, 3).rescaled(weights).isfinite(), weights.isfinite())


@pytest.mark.parametrize("rescale", [True, False])
@pytest.mark.parametrize("at_once", [1, 2**30])
def test_rows_and_weights_are_those_of_the_hops(
    model: Build, inputs_of: Inputs, monkeypatch: pytest.MonkeyPatch, rescale: bool, at_once: int
) -> None:
    monkeypatch.setattr(alignment, "_BYTES_ON_CPU", at_once)
    parts = [
        KernelTargetAlignment(degree=2, epochs=3 + i, optimizer=name, learning_rate=0.05, rescale=rescale)
        for i, name in enumerate(METHODS)
    ]
    models = [model(aggregation=part, n_rounds=4) for part in parts]
    inputs = inputs_of(models[0])
    hops, problem, everyone = AlignedHops(inputs, Members.of(models, inputs)), inputs.problem, torch.arange(4)
    Xs, learned = [problem.inputs.features.dense()] * 4, [[None]] * 4
    for t in range(1, 5):
        if t > 1:
            steps = [part.step(make_context(problem, X)) for part, X in zip(parts, Xs, strict=True)]
            found, Xs = [hop for hop, _ in steps], [X.dense() for _, X in steps]
            learned = [[*old, hop.coefficients] for old, hop in zip(learned, found, strict=True)]
        hops.advance(t, everyone)
        for i, X in enumerate(Xs):
            rows = hops.rows(torch.tensor([i]))[0, :, : X.shape[1]]
            torch.testing.assert_close(rows, X[inputs.nodes], rtol=1e-9, atol=1e-11 * float(X.abs().max()))
    for i in range(4):
        assert hops.coefficients(i)[0] is None
        np.testing.assert_allclose(np.array(hops.coefficients(i)[1:]), np.array(learned[i][1:]), rtol=1e-9)
