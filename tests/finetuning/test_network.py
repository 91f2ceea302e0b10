from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from sklearn.tree import DecisionTreeClassifier

from gbgnn import (
    Adjacency,
    FunctionalGradient,
    Identity,
    InputInjection,
    KernelTargetAlignment,
    Lazy,
    Linear,
    NonLinear,
    Samme,
    SammeR,
    SklearnLearner,
)
from gbgnn._random import Seeds
from gbgnn.aggregation import Aggregation, MixingHop
from gbgnn.boosting import BoostingRule, Ensemble, apply, boost
from gbgnn.errors import ParameterError
from gbgnn.finetuning import SoftVote
from gbgnn.finetuning.network import MultiScaleNetwork
from gbgnn.problem import NodeInputs, Problem
from gbgnn.propagation import Propagator, RandomWalk
from gbgnn.testing import problem_of

AGGREGATIONS = {
    "adjacency": Adjacency(),
    "injection": InputInjection(mixing=0.7),
    "all-injected": InputInjection(mixing=0.0),
    "none-injected": InputInjection(mixing=1.0),
    "lazy": Lazy(),
    "kta": KernelTargetAlignment(),
    "identity": Identity(),
    "linear": Linear(),
    "nonlinear": NonLinear(),
}
RULES = {
    "sigmoid": FunctionalGradient(loss="sigmoid"),
    "softmax": FunctionalGradient(loss="softmax"),
    "labels": FunctionalGradient(loss="softmax", target="labels", on_failure="warn", retries=0),
    "sigmoid-labels": FunctionalGradient(loss="sigmoid", target="labels", on_failure="warn", retries=0),
    "samme": Samme(),
    "samme_r": SammeR(),
}


def dense(problem: Problem) -> torch.Tensor:
    return problem.inputs.P(torch.eye(problem.inputs.n_nodes, dtype=torch.float64))


def soft_codes(output: torch.Tensor, n_outputs: int) -> torch.Tensor:
    n_classes = output.shape[1]
    p = output.exp() / output.exp().sum(dim=1, keepdim=True)
    return ((n_classes * p - 1) / (n_classes - 1))[:, -n_outputs:]


def unrolled(ensemble: Ensemble, problem: Problem, rule: BoostingRule) -> dict[str, object]:
    """The whole model by the book, on all nodes with a dense P: its loss and gradients by autograd."""
    P, X1 = dense(problem), problem.inputs.features
    X, scores = X1, 0.0
    leaves: list[dict[str, torch.Tensor]] = []
    centres = []
    n_outputs = rule.loss_for(problem.n_classes).n_outputs(problem.n_classes)
    is_hard = isinstance(rule, Samme) or getattr(rule, "target", "") == "labels"
    for trained in ensemble:
        own: dict[str, torch.Tensor] = {"eta": torch.tensor(trained.eta, dtype=torch.float64)}
        if isinstance(trained.hop, MixingHop):
            X = P @ X @ trained.hop.weight
            X = X if trained.hop.is_linear else X.relu()
        else:
            record = trained.hop.record()
            own["c"] = torch.tensor(record["coefficients"], dtype=torch.float64)
            own["iota"] = torch.tensor(record["injection"], dtype=torch.float64)
        own |= {name: value.clone() for name, value in trained.head.state().items()}
        for value in own.values():
            value.requires_grad_()
        if "c" in own:
            powers = [torch.linalg.matrix_power(P, p) @ X for p in trained.hop.powers]
            X = sum(c * Z for c, Z in zip(own["c"], powers, strict=True)) + own["iota"] * X1
        rows = X[problem.train.rows].detach()
        centre = rows.mean(dim=0)
        centres.append((centre, (rows - centre).square().sum(dim=1).mean().sqrt()))
        hidden = X @ own["layers.0.weight"].T + own["layers.0.bias"]
        output = hidden.relu() @ own["layers.1.weight"].T + own["layers.1.bias"]
        if isinstance(rule, SammeR):
            direction = rule.direction(output, problem.n_classes)
        else:
            direction = soft_codes(output, n_outputs) if is_hard else output
        scores = scores + own["eta"] * direction
        leaves.append(own)
    train = problem.train
    values = rule.loss_for(problem.n_classes).values(scores[train.rows], train.targets)
    loss = (values * train.weights).sum()
    loss.backward()
    return {"loss": float(loss.detach()), "leaves": leaves, "centres": centres, "scores": scores.detach()}


def expected_gradients(found: dict[str, object], ensemble: Ensemble) -> dict[str, list[torch.Tensor]]:
    """Those of the raw parameters, carried over to the coordinates in which a network is tuned."""
    learners, thetas = [], []
    for trained, own, (centre, size) in zip(ensemble, found["leaves"], found["centres"], strict=True):
        slope = own["layers.0.bias"].grad
        first = (own["layers.0.weight"].grad - slope[:, None] * centre) / size
        learners.append([first, slope, own["layers.1.weight"].grad, own["layers.1.bias"].grad])
        if "c" not in own:
            continue
        if trained.hop.free == "coefficients":
            thetas.append(own["c"].grad)
        elif trained.hop.free == "share":
            given_up = own["iota"].grad if len(own["c"]) == 1 else own["c"].grad[0]
            thetas.append(own["c"].grad[-1:] - given_up)
    etas = torch.stack([own["eta"].grad for own in found["leaves"]])
    stacked = [torch.stack(values) for values in zip(*learners, strict=True)]
    expected = {"learners": stacked, "etas": [etas], "aggregation": thetas}
    return {kind: values for kind, values in expected.items() if values}


def assert_same(got: dict[str, list[torch.Tensor]], wanted: dict[str, list[torch.Tensor]]) -> None:
    assert got.keys() == wanted.keys()
    for kind in wanted:
        largest = max(float(value.norm()) for value in wanted[kind])
        assert largest > 0
        for ours, theirs in zip(got[kind], wanted[kind], strict=True):
            assert float((ours - theirs).norm()) <= 1e-10 * float(theirs.norm()) + 1e-13 * largest


def gradients(network: MultiScaleNetwork) -> dict[str, list[torch.Tensor]]:
    network.accumulate(network.train)
    return network.take_gradients()


@pytest.mark.filterwarnings("ignore:no learner met")
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
@pytest.mark.parametrize("aggregation", AGGREGATIONS.values(), ids=AGGREGATIONS)
def test_loss_scores_and_all_gradients_equal_those_of_the_unrolled_model(
    aggregation: Aggregation,
    rule: BoostingRule,
    two_classes: Problem,
    three_classes: Problem,
    boosted: Callable[..., Ensemble],
) -> None:
    problem = two_classes if getattr(rule, "loss", "") == "sigmoid" else three_classes
    ensemble = boosted(problem, aggregation, rule)
    assert len(ensemble) == 7
    found = unrolled(ensemble, problem, rule)
    network = MultiScaleNetwork(ensemble, problem, rule)
    assert network.accumulate(network.train) == pytest.approx(found["loss"], rel=1e-11)
    assert_same(network.take_gradients(), expected_gradients(found, ensemble))
    scores = network.scores(network.validation, network.rule)
    torch.testing.assert_close(scores, found["scores"][problem.validation.rows], rtol=1e-9, atol=1e-10)


def test_random_walks_are_symmetric_up_to_a_scaling(
    three_classes: Problem, blocks: tuple, boosted: Callable[..., Ensemble]
) -> None:
    inputs = NodeInputs.from_graph(blocks[0], RandomWalk(self_loops=True), dtype=torch.float64)
    problem = replace(three_classes, inputs=inputs)
    ensemble = boosted(problem, KernelTargetAlignment(), SammeR())
    found = unrolled(ensemble, problem, SammeR())
    network = MultiScaleNetwork(ensemble, problem, SammeR())
    assert_same(gradients(network), expected_gradients(found, ensemble))


def test_what_does_not_move_has_no_gradient_and_changes_no_other(
    three_classes: Problem, boosted: Callable[..., Ensemble]
) -> None:
    ensemble = boosted(three_classes, KernelTargetAlignment(), Samme())
    whole = gradients(MultiScaleNetwork(ensemble, three_classes, Samme()))
    for moves in (("learners",), ("etas",), ("aggregation",), ("aggregation", "etas")):
        network = MultiScaleNetwork(ensemble, three_classes, Samme(), moves=moves)
        some = gradients(network)
        assert tuple(some) == moves
        assert_same(some, {kind: whole[kind] for kind in moves})


@pytest.mark.parametrize("aggregation", [KernelTargetAlignment(), Linear(), Adjacency()], ids=str)
def test_memory_limit_changes_no_gradient(
    aggregation: Aggregation, three_classes: Problem, boosted: Callable[..., Ensemble]
) -> None:
    ensemble = boosted(three_classes, aggregation, SammeR())
    whole = MultiScaleNetwork(ensemble, three_classes, SammeR())
    assert whole.rows.plan.is_held
    wanted, scores = gradients(whole), whole.scores(slice(0, 25), SammeR())
    with pytest.raises(
        ParameterError, match=r"memory_limit must be at least [\d,]+ bytes.*; got 10\."
    ) as info:
        MultiScaleNetwork(ensemble, three_classes, SammeR(), memory_limit=10)
    least = int(str(info.value).split("at least ")[1].split(" bytes")[0].replace(",", ""))
    held = set()
    for limit in (least, least + 20_000, least + 60_000, least + 120_000):
        network = MultiScaleNetwork(ensemble, three_classes, SammeR(), memory_limit=limit)
        held.add(network.rows.plan.is_held)
        assert_same(gradients(network), wanted)
        torch.testing.assert_close(network.scores(slice(0, 25), SammeR()), scores, rtol=1e-11, atol=1e-12)
    assert False in held
    with pytest.raises(ParameterError, match="memory_limit must be at least"):
        MultiScaleNetwork(ensemble, three_classes, SammeR(), memory_limit=least - 1)


@pytest.mark.parametrize("limit", [2**31, 400_000])
def test_batches_of_an_epoch_sum_up_to_the_whole(
    limit: int, three_classes: Problem, boosted: Callable[..., Ensemble]
) -> None:
    ensemble = boosted(three_classes, InputInjection(), Samme())
    network = MultiScaleNetwork(ensemble, three_classes, Samme(), memory_limit=limit, is_batched=True)
    loss = network.accumulate(network.train)
    wanted = network.take_gradients()
    order = torch.randperm(15, generator=torch.Generator().manual_seed(3))
    parts = [network.accumulate(chosen) for chosen in order.split(4)]
    assert sum(parts) == pytest.approx(loss, rel=1e-12)
    assert_same(network.take_gradients(), wanted)


@pytest.mark.parametrize("aggregation", AGGREGATIONS.values(), ids=AGGREGATIONS)
def test_rebuilt_rounds_give_the_network_scores_by_the_ordinary_way(
    aggregation: Aggregation, three_classes: Problem, boosted: Callable[..., Ensemble]
) -> None:
    network = MultiScaleNetwork(boosted(three_classes, aggregation, Samme()), three_classes, Samme())
    with torch.no_grad():
        for kind in network.parameters().values():
            for value in kind:
                value += 0.05 * torch.randn(value.shape, generator=torch.Generator().manual_seed(1))
    network.motion.project()
    network.after_epoch()
    rebuilt = network.rebuild()
    *_, (_, scores) = apply(rebuilt, three_classes.inputs, SoftVote(rule=Samme()), 3)
    wanted = network.scores(network.train, network.rule)
    torch.testing.assert_close(scores[three_classes.train.rows], wanted, rtol=1e-9, atol=1e-10)
    assert not any(p.requires_grad for r in rebuilt for p in r.head.parameters())


@pytest.mark.parametrize("name", ["kta", "injection", "none-injected", "lazy"])
def test_tuned_hops_move_again_when_tuned_again(
    name: str, three_classes: Problem, boosted: Callable[..., Ensemble]
) -> None:
    ensemble = boosted(three_classes, AGGREGATIONS[name], SammeR())
    network = MultiScaleNetwork(ensemble, three_classes, SammeR())
    with torch.no_grad():
        for theta in network.parameters()["aggregation"]:
            theta -= 0.1
    once = network.rebuild()
    assert [r.hop.free for r in once] == [r.hop.free for r in ensemble]
    assert all(a.hop != b.hop for a, b in list(zip(once, ensemble, strict=True))[1:])
    again = MultiScaleNetwork(once, three_classes, SammeR())
    assert_same(gradients(again), expected_gradients(unrolled(once, three_classes, SammeR()), once))


def test_untouched_network_rebuilds_the_same_model(
    three_classes: Problem, boosted: Callable[..., Ensemble]
) -> None:
    ensemble = boosted(three_classes, Lazy(), SammeR())
    again = MultiScaleNetwork(ensemble, three_classes, SammeR(), moves=("etas", "aggregation")).rebuild()
    assert again.etas == ensemble.etas
    assert [r.hop for r in again] == [r.hop for r in ensemble]
    assert all(a.head is b.head for a, b in zip(again, ensemble, strict=True))


def test_shares_stay_between_zero_and_one(three_classes: Problem, boosted: Callable[..., Ensemble]) -> None:
    network = MultiScaleNetwork(boosted(three_classes, Lazy(), SammeR()), three_classes, SammeR())
    with torch.no_grad():
        network.motion.thetas[1] += 3
        network.motion.thetas[2] -= 3
    network.motion.project()
    hops = [r.hop for r in network.rebuild()]
    assert (hops[1].coefficients, hops[2].coefficients) == ((0.0, 1.0), (1.0, 0.0))


def test_few_terms_suffice_in_single_precision_and_more_come_when_needed(
    blocks: tuple, boosted: Callable[..., Ensemble]
) -> None:
    graph, y = blocks
    problem = problem_of(graph, y, np.arange(15), dtype=torch.float32)
    ensemble = boosted(problem, KernelTargetAlignment(learning_rate=0.05), SammeR(), 40)
    network = MultiScaleNetwork(ensemble, problem, SammeR())
    n_terms, degree = network.rows.terms.n_terms, 8 * 39
    assert n_terms < 0.7 * degree
    with torch.no_grad():
        for theta in network.motion.thetas[1:]:
            theta.copy_(torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0]))
            theta[0] = -0.999  # x^8 - 1 has all its weight far from the largest eigenvalue
    network.after_epoch()
    assert n_terms < network.rows.terms.n_terms <= degree + 1


def test_learner_without_parameters_is_refused_before_any_work(three_classes: Problem) -> None:
    trees = SklearnLearner(estimator=DecisionTreeClassifier(max_depth=1))
    ensemble = boost(three_classes, Adjacency(), trees, SammeR(), n_rounds=2, seeds=Seeds(0)).ensemble
    with pytest.raises(ParameterError, match=r"round 1 \(SklearnHead\) has no parameters.*MLP\(\)"):
        MultiScaleNetwork(ensemble, three_classes, SammeR(), memory_limit=1)


@pytest.fixture(scope="module")
def directed(three_classes: Problem) -> Problem:
    """The same nodes with edges that lead one way, and some that lead back with another weight."""
    random = np.random.default_rng(0)
    A = (random.random((40, 40)) < 0.1) * random.random((40, 40))
    inputs = NodeInputs(three_classes.inputs.features, Propagator(sp.csr_array(A / 2), dtype=torch.float64))
    return replace(three_classes, inputs=inputs)


@pytest.mark.parametrize("name", ["kta", "injection", "lazy"])
def test_gradients_on_a_directed_graph_equal_those_of_the_unrolled_model(
    name: str, directed: Problem, boosted: Callable[..., Ensemble]
) -> None:
    ensemble = boosted(directed, AGGREGATIONS[name], SammeR())
    wanted = expected_gradients(unrolled(ensemble, directed, SammeR()), ensemble)
    whole = MultiScaleNetwork(ensemble, directed, SammeR())
    assert_same(gradients(whole), wanted)
    with pytest.raises(ParameterError, match="at least") as info:
        MultiScaleNetwork(ensemble, directed, SammeR(), memory_limit=1)
    least = int(str(info.value).split("at least ")[1].split(" bytes")[0].replace(",", ""))
    narrow = MultiScaleNetwork(ensemble, directed, SammeR(), memory_limit=least)
    assert (narrow.rows.plan.n_columns, narrow.rows.plan.n_rows) == (1, 1)
    assert_same(gradients(narrow), wanted)
    still = MultiScaleNetwork(ensemble, directed, SammeR(), moves=("learners", "etas"))
    assert still.rows.plan.is_held
    assert_same(gradients(still), {kind: wanted[kind] for kind in ("learners", "etas")})


def test_scores_on_a_directed_graph_follow_the_hops(
    directed: Problem, boosted: Callable[..., Ensemble]
) -> None:
    network = MultiScaleNetwork(boosted(directed, Lazy(), SammeR()), directed, SammeR())
    with torch.no_grad():
        network.motion.thetas[3] += 0.2
    *_, (_, scores) = apply(network.rebuild(), directed.inputs, SammeR(), 3)
    wanted = scores[directed.validation.rows]
    torch.testing.assert_close(network.scores(network.validation, SammeR()), wanted, rtol=1e-10, atol=1e-10)


def test_nothing_to_move_is_an_error(three_classes: Problem, boosted: Callable[..., Ensemble]) -> None:
    ensemble = boosted(three_classes, Adjacency(), SammeR(), 2)
    with pytest.raises(ParameterError, match="leaves nothing to move"):
        MultiScaleNetwork(ensemble, three_classes, SammeR(), moves=("aggregation",))
