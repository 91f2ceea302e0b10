from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gbgnn import MLP, FunctionalGradient, Lazy, Samme, SammeR
from gbgnn.aggregation import Adjacency, Aggregation, KernelTargetAlignment, PolynomialHop, alignment
from gbgnn.boosting import BoostingRule, StopReason, Vote
from gbgnn.errors import GBGNNWarning
from gbgnn.losses import Loss, SigmoidCrossEntropy, SoftmaxCrossEntropy, SquaredError
from gbgnn.population import PopulationInputs
from gbgnn.problem import LabelledNodes
from gbgnn.propagation import DenseRows
from gbgnn.rounds import RoundContext, TrainingLoss, WeakTask, for_rows, map_tensors, shared_settings, stack
from gbgnn.testing import make_context, make_problem, two_blocks
from gbgnn.theory import WeakLearnings

GRAPH, Y = two_blocks(12, n_classes=3)


def scored(n_columns: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.randn(12, n_columns, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def nodes(targets: np.ndarray, weights: np.ndarray | None = None) -> LabelledNodes:
    return LabelledNodes.build(np.array([7, 1, 4, 2, 9]), targets, weights)


CASES: list[tuple[Loss, int, np.ndarray]] = [
    (SigmoidCrossEntropy(), 1, np.array([0, 1, 1, 0, 1])),
    (SigmoidCrossEntropy(), 2, np.array([[0.0, 1], [1, 1], [1, 0], [0, 0], [0, 1]])),
    (SoftmaxCrossEntropy(), 3, np.array([0, 2, 1, 2, 0])),
    (SquaredError(), 2, np.arange(10.0).reshape(5, 2)),
]


def test_the_loss_of_a_task_tells_classes_from_numbers() -> None:
    rows, weights = torch.tensor([0]), torch.tensor([1.0])
    assert WeakTask(rows, torch.tensor([[0.5]]), weights, 1, SquaredError()).is_regression
    assert not WeakTask(rows, torch.tensor([1]), weights, 2, SoftmaxCrossEntropy()).is_regression
    # Numbers that happen to be whole, and 0/1 targets that happen to be floats, are what the loss says.
    assert WeakTask(rows, torch.tensor([[1]]), weights, 1, SquaredError()).is_regression
    assert not WeakTask(rows, torch.tensor([[1.0]]), weights, 1, SigmoidCrossEntropy()).is_regression


@pytest.mark.parametrize(("loss", "n_columns", "targets"), CASES)
def test_gradient_equals_autograd(loss: Loss, n_columns: int, targets: np.ndarray) -> None:
    train, scores = nodes(targets), scored(n_columns).requires_grad_()
    loss.values(scores[train.rows], train.targets).mean().backward()
    expected = -scores.grad[train.rows]
    at = TrainingLoss.at(scores.detach(), train, loss)
    torch.testing.assert_close(at.residuals / train.size, expected)
    assert at.gradient_norm == pytest.approx(float(expected.norm()))


@pytest.mark.parametrize(("loss", "n_columns", "targets"), CASES)
def test_weights_scale_rows_by_their_roots(loss: Loss, n_columns: int, targets: np.ndarray) -> None:
    train, scores = nodes(targets, np.arange(1.0, 6.0)), scored(n_columns)
    at = TrainingLoss.at(scores, train, loss)
    rows, shares = scores[train.rows], np.arange(1.0, 6.0) / 15
    assert at.value == pytest.approx(float(loss.values(rows, train.targets) @ torch.tensor(shares)))
    expected = np.sqrt((shares / 5) @ loss.gradient(rows, train.targets).square().sum(dim=1).numpy())
    assert at.gradient_norm == pytest.approx(float(expected))
    uniform = TrainingLoss.at(scores, nodes(targets), loss)
    assert torch.equal(at.residuals, uniform.residuals)  # weights are left out of them


def test_numbers_are_in_double_precision_and_computed_once() -> None:
    calls = []

    class Counting(SoftmaxCrossEntropy):
        def gradient(self, scores: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
            calls.append(scores.dtype)
            return super().gradient(scores, targets)

    at = TrainingLoss.at(scored(3, dtype=torch.float32), nodes(CASES[2][2]), Counting())
    assert calls == []  # not before somebody asks
    assert at.residuals is at.residuals
    assert at.gradient_norm == at.gradient_norm
    assert calls == [torch.float64]


def test_a_context_shows_its_problem_and_cannot_be_changed() -> None:
    problem = make_problem(GRAPH, Y, np.arange(6))
    context = make_context(problem, seed=3)
    assert context.inputs is problem.inputs
    assert context.train is problem.train
    assert (context.t, context.seed, context.hops) == (2, 3, ())
    with pytest.raises(FrozenInstanceError):
        context.seed = 4
    with pytest.raises(AssertionError, match="the rule has not asked for anything yet"):
        _ = context.weak_task
    task = WeakTask(torch.tensor([0]), torch.tensor([1]), torch.tensor([1.0]), 3, SoftmaxCrossEntropy())
    assert replace(context, task=task).weak_task is task


def test_other_features_take_the_way_of_the_hops_so_far() -> None:
    context = make_context(make_problem(GRAPH, Y, np.arange(6)))
    hops, X = [], context.X
    for part in (Adjacency(), KernelTargetAlignment(epochs=3)):
        hop, X = part.step(replace(context, X=X))
        hops.append(hop)
    later = replace(context, X=X, hops=tuple(hops))
    torch.testing.assert_close(later.propagate(context.inputs.features).dense(), X.dense())
    doubled = later.propagate(DenseRows(2 * context.inputs.features.dense())).dense()
    torch.testing.assert_close(doubled, 2 * X.dense())
    assert context.propagate(context.X) is context.X


PROBLEM = make_problem(*two_blocks(30, n_classes=3), np.arange(12), np.arange(12, 20))

RULES: dict[str, list[BoostingRule]] = {
    "samme": [Samme(error_floor=0.1), Samme(learning_rate=0.3), Samme()],
    "samme_r": [SammeR(proba_floor=0.1), SammeR(learning_rate=0.3), SammeR()],
    "gradient": [
        FunctionalGradient(min_cosine=0.1),
        FunctionalGradient(learning_rate=0.9),
        FunctionalGradient(),
    ],
    "gradient of labels": [
        FunctionalGradient(target="labels", min_cosine=0.1),
        FunctionalGradient(target="labels", learning_rate=0.9),
        FunctionalGradient(target="labels"),
    ],
}


@dataclass(kw_only=True, eq=False, repr=False)
class Hops(Aggregation):
    """A part that says nothing of members."""

    hops: int = 2
    share: float = 0.5
    kind: str = "plain"

    def check(self) -> None:
        pass

    def fit(self, context: RoundContext) -> PolynomialHop:
        return PolynomialHop((self.hops,), (self.share,))


def names(part: Any) -> set[str]:
    """The settings that members must agree in."""
    return set(shared_settings(part)) - {""}


def test_parts_may_differ_in_numbers_with_a_fraction() -> None:
    assert names(Hops()) == {"hops", "kind"}
    assert shared_settings(Hops(share=0.1)) == shared_settings(Hops(share=0.9))
    assert shared_settings(Hops(hops=2)) != shared_settings(Hops(hops=3))


def test_a_part_may_say_itself_what_members_may_differ_in() -> None:
    assert names(KernelTargetAlignment()) == {"degree", "solver", "rescale"}
    assert names(MLP()) == {"hidden_layers", "patience", "standardize", "scale_by", "norm", "basis"}
    several = [MLP(units=3, epochs=9, weight_decay=None, batch_size=7), MLP(weight_decay=0.1)]
    assert shared_settings(several[0]) == shared_settings(several[1])


def test_one_part_stands_for_itself() -> None:
    part = Lazy(mixing=0.3)
    assert stack([part]) is part


def test_parts_are_stacked_where_they_differ_and_stay_as_they_are() -> None:
    parts = [Hops(share=0.1), Hops(share=0.9)]
    stacked = stack(parts)
    assert stacked.share.tolist() == [0.1, 0.9]
    assert (stacked.share.dtype, stacked.hops, stacked.kind) == (torch.float64, 2, "plain")
    assert [part.share for part in parts] == [0.1, 0.9]
    assert stack([Hops(share=0.1), Hops(share=0.1)]).share == 0.1
    assert stack(parts, torch.device("meta")).share.device.type == "meta"


@pytest.mark.parametrize("rates", [(1, 0.5), (0.5, 1)])
def test_a_whole_number_may_stand_where_a_fraction_is_meant(rates: tuple[float, float]) -> None:
    rules = [Samme(learning_rate=rate) for rate in rates]
    assert shared_settings(rules[0]) == shared_settings(rules[1])
    assert stack(rules).learning_rate.tolist() == list(rates)


def test_numbers_of_members_multiply_tables() -> None:
    table = torch.ones(2, 5, 3)
    each = torch.tensor([1.0, 2.0], dtype=torch.float64)
    assert for_rows(0.5, table) == 0.5
    assert for_rows(each, table).dtype == torch.float32
    assert (for_rows(each, table) * table)[:, 4, 2].tolist() == [1, 2]
    assert for_rows(each, torch.ones(2, 5)).shape == (2, 1)


def test_tensors_are_found_in_tuples_and_dataclasses() -> None:
    @dataclass(frozen=True)
    class Memory:
        weights: torch.Tensor
        name: str
        more: tuple[Any, ...] = ()

    one = Memory(torch.tensor([1.0, 2.0]), "mine", (torch.tensor([[3.0], [4.0]]), None))
    first = map_tensors(lambda each: each[:1], one)
    assert (first.weights.tolist(), first.name, first.more[0].tolist(), first.more[1]) == (
        [1.0],
        "mine",
        [[3.0]],
        None,
    )
    summed = map_tensors(lambda a, b: a + b, one, one)
    assert (summed.weights.tolist(), summed.name) == ([2, 4], "mine")
    assert map_tensors(lambda each: each, ()) == ()


def judge(rule: BoostingRule, direction: torch.Tensor, context: RoundContext, state: Any) -> Vote:
    """The vote for directions, as the loop asks for it."""
    train = context.train
    shares = train.weights / train.size
    quality = WeakLearnings.measure(direction[:, train.rows], context.training.residuals, shares)
    return rule.vote(direction, quality, context, state).broadcast()


def round_at(scores: torch.Tensor, rule: BoostingRule) -> RoundContext:
    """A round of members with these scores."""
    training = TrainingLoss.at(scores, PROBLEM.train, rule.loss_for(PROBLEM.task))
    ids = list(range(len(scores)))
    return replace(make_context(PROBLEM), scores=scores, training=training, ids=ids)


@pytest.mark.parametrize("name", RULES)
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), skill=st.sampled_from([-1.0, 0.0, 1.0, 30.0]))
def test_tasks_votes_and_memory_of_members_are_those_of_every_rule_alone(
    name: str, seed: int, skill: float
) -> None:
    rules, train = RULES[name], PROBLEM.train
    random = torch.Generator().manual_seed(seed)
    weights = torch.rand(3, train.size, generator=random, dtype=torch.float64)
    weights /= weights.sum(dim=1, keepdim=True)
    scores, output = torch.randn(2, 3, 30, 3, generator=random, dtype=torch.float64)
    output[:, train.rows, train.targets] += skill
    together = stack(rules)
    state = weights if name.startswith("samme") else together.start(PROBLEM, 3)
    context, voting = round_at(scores, together), together.voting_for(PROBLEM.task)
    task, direction = together.ask(context, state), voting.direction(output)
    vote = judge(together, direction, context, state)
    after = together.update(state, vote, context)
    for i, rule in enumerate(rules):
        own, mine = round_at(scores[i : i + 1], rule), map_tensors(lambda each, i=i: each[i : i + 1], state)
        asked = rule.ask(own, mine)
        torch.testing.assert_close(task.weights[i], asked.weights[0])
        assert torch.equal(task.members(i).targets, asked.members(0).targets)
        alone = judge(rule, rule.voting_for(PROBLEM.task).direction(output[i : i + 1]), own, mine)
        torch.testing.assert_close(vote.direction[i], alone.direction[0])
        assert vote.refusals()[i] == alone.refusals()[0]
        torch.testing.assert_close(vote.eta[i], alone.eta[0], rtol=1e-9, atol=0)
        torch.testing.assert_close(vote.weighted_error[i], alone.weighted_error[0])
        map_tensors(
            lambda many, one, i=i: torch.testing.assert_close(many[i], one[0]) or many,
            after,
            rule.update(mine, alone, own),
        )


def test_scores_without_a_gradient_end_the_boosting_of_their_member_alone() -> None:
    rule, train = FunctionalGradient(loss="softmax"), PROBLEM.train
    scores = torch.zeros(2, 30, 3, dtype=torch.float64)
    scores[0, train.rows, train.targets] = 1e4
    follow = torch.zeros_like(scores)
    follow[:, train.rows, train.targets] = 1.0
    vote = judge(rule, follow, round_at(scores, rule), ())
    assert vote.refusals() == [StopReason.GRADIENT_VANISHED, None]


def test_learners_that_return_nothing_fail_the_condition() -> None:
    rule, nothing = FunctionalGradient(), torch.zeros(1, 30, 3, dtype=torch.float64)
    vote = judge(rule, nothing, round_at(nothing, rule), ())
    assert vote.refusals() == [StopReason.WEAK_LEARNING_FAILED]
    assert float(vote.eta[0]) == 0


def test_failed_conditions_are_settled_as_asked() -> None:
    reasons = [None, StopReason.WEAK_LEARNING_FAILED, StopReason.DIVERGED]
    codes = torch.tensor([0 if reason is None else reason.code for reason in reasons])
    quality = WeakLearnings.measure(torch.zeros(3, 1, 1), torch.zeros(3, 1, 1), torch.ones(1))
    vote = Vote(torch.ones(3).double(), torch.zeros(3, 1, 1), quality, refusal=codes).broadcast()
    assert FunctionalGradient(on_failure="stop").on_exhausted(vote) is vote
    with pytest.warns(GBGNNWarning, match="no learner met the weak learning condition"):
        settled = FunctionalGradient(on_failure="warn").on_exhausted(vote)
    assert settled.refusals() == [None, None, StopReason.DIVERGED]
    assert settled.eta.tolist() == [1, 0, 1]


def test_one_number_may_stand_for_all_members() -> None:
    direction = torch.ones(3, 4, 2)
    quality = WeakLearnings.measure(direction, direction, torch.ones(4))
    vote = Vote(0.5, direction, quality).broadcast()
    assert vote.eta.tolist() == [0.5] * 3
    assert (vote.refusals(), vote.attempts.tolist(), vote.weighted_error) == ([None] * 3, [1] * 3, None)


METHODS = ["sgd", "adam", "rmsprop", "adam"]


@pytest.mark.parametrize("rescale", [True, False])
@pytest.mark.parametrize("at_once", [1, 2**30])
def test_weights_and_rows_of_aligned_members_are_those_of_each_alone(
    monkeypatch: pytest.MonkeyPatch, rescale: bool, at_once: int
) -> None:
    """Kernel target alignment by several methods, rates and numbers of steps, round after round."""
    monkeypatch.setattr(alignment, "_BYTES_ON_CPU", at_once)  # members in one part, or each in its own
    parts = [
        KernelTargetAlignment(
            degree=2,
            epochs=(3, 9, 0, 5)[i],
            optimizer=METHODS[i],
            learning_rate=(0.1, 0.05, 0.02, 0.3)[i],
            rescale=rescale,
        )
        for i in range(4)
    ]
    inputs = PopulationInputs(PROBLEM, predict_nodes=np.arange(30))
    problem = inputs.restrict(parts[0], n_rounds=4)
    assert problem is not None
    X, dense = problem.inputs.features, [PROBLEM.inputs.features.dense()] * 4
    scores = problem.inputs.zero_scores(3, 4)
    training = TrainingLoss.at(scores, problem.train, SoftmaxCrossEntropy())
    for t in (2, 3, 4):
        seeds, hops = [0] * 4, [()] * 4
        context = RoundContext(t, problem, X, hops, scores, training, seeds, ids=[0, 1, 2, 3])
        found, X = KernelTargetAlignment.step_many(parts, context)
        for i, part in enumerate(parts):
            hop, moved = part.step(make_context(PROBLEM, dense[i]))
            dense[i] = moved.dense()
            np.testing.assert_allclose(found[i].coefficients, hop.coefficients, rtol=1e-9)
            assert found[i].alignment == pytest.approx(hop.alignment, rel=1e-9)
            expected, atol = dense[i][inputs.nodes], 1e-11 * float(dense[i].abs().max())
            torch.testing.assert_close(X.member(i).dense(), expected, rtol=1e-9, atol=atol)


def test_weights_that_cancel_all_rows_have_no_slope_and_are_left_as_they_are() -> None:
    terms = torch.randn(2, 3, 5, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    terms[1, 1] = -terms[1, 0]
    codes, weights = torch.eye(5, 3).double(), torch.tensor([[1.0, 0.5, 2.0], [1.0, 1.0, 0.0]]).double()
    found = alignment.AlignmentProblem.build(terms, codes)
    values, gradients = found.value_and_gradient(weights)
    assert (float(values[1]), bool(gradients[1].any())) == (0, False)
    assert float(values[0]) > 0
    rescaled = found.rescale(weights)
    assert torch.equal(rescaled[1], weights[1])
    mixed = torch.einsum("k,knc->nc", rescaled[0], terms[0])
    torch.testing.assert_close(mixed.norm(), terms[0, 0].norm())


def test_heads_of_the_round_before_are_handed_on_to_whom_they_belong() -> None:
    scores = PROBLEM.inputs.zero_scores(3, 3)
    training = TrainingLoss.at(scores, PROBLEM.train, SoftmaxCrossEntropy())
    features, hops, seeds = PROBLEM.inputs.features, [()] * 3, [0] * 3
    context = RoundContext(2, PROBLEM, features, hops, scores, training, seeds, ids=[4, 5, 6], previous="abc")
    assert context.member(1).previous == "b"
    assert context.members([2, 0]).previous == ["c", "a"]
    assert context.member(2).batched().previous == ["c"]
    nobody = replace(context, previous=None)
    assert nobody.member(0).previous is None
    assert nobody.members([1]).previous is None
