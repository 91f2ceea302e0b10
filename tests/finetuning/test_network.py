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
from gbgnn.boosting import BoostingRule, Ensemble, Voting, apply, boost
from gbgnn.errors import ParameterError
from gbgnn.finetuning.network import MultiScaleNetwork
from gbgnn.metrics import as_metric
from gbgnn.problem import InputRecipe, NodeInputs, Problem
from gbgnn.propagation import Propagator, RandomWalk, SparseRows
from gbgnn.testing import make_problem

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
    "squared": FunctionalGradient(loss="squared"),
    "many labels": FunctionalGradient(loss="sigmoid"),
}


def voting_of(problem: Problem, rule: BoostingRule) -> Voting:
    return rule.voting_for(problem.task)


def network_of(
    ensemble: Ensemble, problem: Problem, rule: BoostingRule, **settings: object
) -> MultiScaleNetwork:
    loss, usual = rule.loss_for(problem.task), as_metric(problem.task.default_metric)
    metric = settings.pop("metric", usual)
    return MultiScaleNetwork(ensemble, problem, voting_of(problem, rule), loss, metric, **settings)


def dense(problem: Problem) -> torch.Tensor:
    return problem.inputs.P(torch.eye(problem.inputs.n_nodes, dtype=torch.float64))


def soft_codes(output: torch.Tensor, n_outputs: int) -> torch.Tensor:
    n_classes = output.shape[1]
    p = output.exp() / output.exp().sum(dim=1, keepdim=True)
    return ((n_classes * p - 1) / (n_classes - 1))[:, -n_outputs:]


def log_codes(output: torch.Tensor, floor: float) -> torch.Tensor:
    logs = (output.exp() / output.exp().sum(dim=1, keepdim=True)).clamp_min(floor).log()
    return (output.shape[1] - 1) * (logs - logs.mean(dim=1, keepdim=True))


def unrolled(ensemble: Ensemble, problem: Problem, rule: BoostingRule) -> dict[str, object]:
    """The whole model by the book, on all nodes with a dense P: its loss and gradients by autograd."""
    P, X1 = dense(problem), problem.inputs.features.dense()
    X, scores = X1, 0.0
    leaves: list[dict[str, torch.Tensor]] = []
    centres = []
    loss = rule.loss_for(problem.task)
    n_outputs = problem.task.n_outputs(loss)
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
            direction = log_codes(output, rule.proba_floor)
        else:
            direction = soft_codes(output, n_outputs) if is_hard else output
        scores = scores + own["eta"] * direction
        leaves.append(own)
    train = problem.train
    mean = (loss.values(scores[train.rows], train.targets) * train.weights).sum()
    mean.backward()
    return {"loss": float(mean.detach()), "leaves": leaves, "centres": centres, "scores": scores.detach()}


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


def least_limit(ensemble: Ensemble, problem: Problem, rule: BoostingRule) -> int:
    """Read off the error message how many bytes are needed at least."""
    message = r"memory_limit must be at least [\d,]+ bytes.*; got 10\."
    with pytest.raises(ParameterError, match=message) as info:
        network_of(ensemble, problem, rule, memory_limit=10)
    return int(str(info.value).split("at least ")[1].split(" bytes")[0].replace(",", ""))


def gradients(network: MultiScaleNetwork) -> dict[str, list[torch.Tensor]]:
    network.accumulate(network.train)
    return network.take_gradients()


@pytest.mark.filterwarnings("ignore:no learner met")
@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("aggregation", AGGREGATIONS.values(), ids=AGGREGATIONS)
def test_loss_scores_and_all_gradients_equal_those_of_the_unrolled_model(
    aggregation: Aggregation,
    name: str,
    request: pytest.FixtureRequest,
    boosted: Callable[..., Ensemble],
) -> None:
    of = {"sigmoid": "two_classes", "sigmoid-labels": "two_classes"}
    of |= {"squared": "numbers", "many labels": "many_labels"}
    problem, rule = request.getfixturevalue(of.get(name, "three_classes")), RULES[name]
    ensemble = boosted(problem, aggregation, rule)
    assert len(ensemble) == 7
    found = unrolled(ensemble, problem, rule)
    network = network_of(ensemble, problem, rule)
    assert network.accumulate(network.train) == pytest.approx(found["loss"], rel=1e-11)
    assert_same(network.take_gradients(), expected_gradients(found, ensemble))
    scores = network.scores(network.validation, network.voting)
    torch.testing.assert_close(scores, found["scores"][problem.validation.rows], rtol=1e-9, atol=1e-10)


def test_random_walks_are_symmetric_up_to_a_scaling(
    three_classes: Problem, blocks: tuple, boosted: Callable[..., Ensemble]
) -> None:
    inputs = InputRecipe(RandomWalk(self_loops=True), dtype=torch.float64).build(blocks[0])
    problem = replace(three_classes, inputs=inputs)
    ensemble = boosted(problem, KernelTargetAlignment(), SammeR())
    found = unrolled(ensemble, problem, SammeR())
    network = network_of(ensemble, problem, SammeR())
    assert_same(gradients(network), expected_gradients(found, ensemble))


def test_what_does_not_move_has_no_gradient_and_changes_no_other(
    three_classes: Problem, boosted: Callable[..., Ensemble]
) -> None:
    ensemble = boosted(three_classes, KernelTargetAlignment(), Samme())
    whole = gradients(network_of(ensemble, three_classes, Samme()))
    for moves in (("learners",), ("etas",), ("aggregation",), ("aggregation", "etas")):
        network = network_of(ensemble, three_classes, Samme(), moves=moves)
        some = gradients(network)
        assert tuple(some) == moves
        assert_same(some, {kind: whole[kind] for kind in moves})


@pytest.mark.parametrize("aggregation", [KernelTargetAlignment(), Linear(), Adjacency()], ids=str)
def test_memory_limit_changes_no_gradient(
    aggregation: Aggregation, three_classes: Problem, boosted: Callable[..., Ensemble]
) -> None:
    ensemble = boosted(three_classes, aggregation, SammeR())
    whole = network_of(ensemble, three_classes, SammeR())
    assert whole.plan.is_held
    voting = voting_of(three_classes, SammeR())
    wanted, scores = gradients(whole), whole.scores(slice(0, 25), voting)
    least = least_limit(ensemble, three_classes, SammeR())
    held = set()
    for limit in (least, least + 20_000, least + 60_000, least + 120_000):
        network = network_of(ensemble, three_classes, SammeR(), memory_limit=limit)
        held.add(network.plan.is_held)
        assert_same(gradients(network), wanted)
        torch.testing.assert_close(network.scores(slice(0, 25), voting), scores, rtol=1e-11, atol=1e-12)
    assert False in held
    with pytest.raises(ParameterError, match="memory_limit must be at least"):
        network_of(ensemble, three_classes, SammeR(), memory_limit=least - 1)


@pytest.mark.parametrize("limit", [2**31, 400_000])
def test_batches_of_an_epoch_sum_up_to_the_whole(
    limit: int, three_classes: Problem, boosted: Callable[..., Ensemble]
) -> None:
    ensemble = boosted(three_classes, InputInjection(), Samme())
    network = network_of(ensemble, three_classes, Samme(), memory_limit=limit, is_batched=True)
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
    network = network_of(boosted(three_classes, aggregation, Samme()), three_classes, Samme())
    with torch.no_grad():
        for kind in network.parameters().values():
            for value in kind:
                value += 0.05 * torch.randn(value.shape, generator=torch.Generator().manual_seed(1))
    network.hops.project()
    network.after_epoch()
    rebuilt = network.rebuild()
    scores = apply(rebuilt, three_classes.inputs, voting_of(three_classes, Samme()).softened())
    wanted = network.scores(network.train, network.voting)
    torch.testing.assert_close(scores[three_classes.train.rows], wanted, rtol=1e-9, atol=1e-10)
    assert not any(p.requires_grad for r in rebuilt for p in r.head.parameters())


@pytest.mark.parametrize("name", ["kta", "injection", "none-injected", "lazy"])
def test_tuned_hops_move_again_when_tuned_again(
    name: str, three_classes: Problem, boosted: Callable[..., Ensemble]
) -> None:
    ensemble = boosted(three_classes, AGGREGATIONS[name], SammeR())
    network = network_of(ensemble, three_classes, SammeR())
    with torch.no_grad():
        for theta in network.parameters()["aggregation"]:
            theta -= 0.1
    once = network.rebuild()
    assert [r.hop.free for r in once] == [r.hop.free for r in ensemble]
    assert all(a.hop != b.hop for a, b in list(zip(once, ensemble, strict=True))[1:])
    again = network_of(once, three_classes, SammeR())
    assert_same(gradients(again), expected_gradients(unrolled(once, three_classes, SammeR()), once))


def test_untouched_network_rebuilds_the_same_model(
    three_classes: Problem, boosted: Callable[..., Ensemble]
) -> None:
    ensemble = boosted(three_classes, Lazy(), SammeR())
    again = network_of(ensemble, three_classes, SammeR(), moves=("etas", "aggregation")).rebuild()
    assert again.etas == ensemble.etas
    assert [r.hop for r in again] == [r.hop for r in ensemble]
    assert all(a.head is b.head for a, b in zip(again, ensemble, strict=True))


def test_shares_stay_between_zero_and_one(three_classes: Problem, boosted: Callable[..., Ensemble]) -> None:
    network = network_of(boosted(three_classes, Lazy(), SammeR()), three_classes, SammeR())
    with torch.no_grad():
        network.hops.thetas[1] += 3
        network.hops.thetas[2] -= 3
    network.hops.project()
    hops = [r.hop for r in network.rebuild()]
    assert (hops[1].coefficients, hops[2].coefficients) == ((0.0, 1.0), (1.0, 0.0))


def test_few_terms_suffice_in_single_precision_and_more_come_when_needed(
    blocks: tuple, boosted: Callable[..., Ensemble]
) -> None:
    graph, y = blocks
    problem = make_problem(graph, y, np.arange(15), dtype=torch.float32)
    ensemble = boosted(problem, KernelTargetAlignment(learning_rate=0.05), SammeR(), 40)
    network = network_of(ensemble, problem, SammeR())
    n_terms, degree = network.n_terms, 8 * 39
    assert n_terms < 0.7 * degree
    with torch.no_grad():
        for theta in network.hops.thetas[1:]:
            theta.copy_(torch.tensor([0.0, 0.0, 0.0, 0.0, 1.0]))
            theta[0] = -0.999  # x^8 - 1 has all its weight far from the largest eigenvalue
    network.after_epoch()
    assert n_terms < network.n_terms <= degree + 1


def test_learner_without_parameters_is_refused_before_any_work(three_classes: Problem) -> None:
    trees = SklearnLearner(estimator=DecisionTreeClassifier(max_depth=1))
    ensemble = boost(three_classes, Adjacency(), trees, SammeR(), n_rounds=2, seeds=Seeds(0)).ensemble
    with pytest.raises(ParameterError, match=r"round 1 \(SklearnHead\) has no parameters.*MLP\(\)"):
        network_of(ensemble, three_classes, SammeR(), memory_limit=1)


@pytest.fixture(scope="module")
def directed(three_classes: Problem) -> Problem:
    """The same nodes with edges that lead one way, and some that lead back with another weight."""
    random = np.random.default_rng(0)
    A = (random.random((40, 40)) < 0.1) * random.random((40, 40))
    P = Propagator(sp.csr_array(A / 2), dtype=torch.float64)
    return replace(three_classes, inputs=NodeInputs(three_classes.inputs.features, P))


@pytest.mark.parametrize("name", ["kta", "injection", "lazy"])
def test_gradients_on_a_directed_graph_equal_those_of_the_unrolled_model(
    name: str, directed: Problem, boosted: Callable[..., Ensemble]
) -> None:
    ensemble = boosted(directed, AGGREGATIONS[name], SammeR())
    wanted = expected_gradients(unrolled(ensemble, directed, SammeR()), ensemble)
    whole = network_of(ensemble, directed, SammeR())
    assert_same(gradients(whole), wanted)
    least = least_limit(ensemble, directed, SammeR())
    narrow = network_of(ensemble, directed, SammeR(), memory_limit=least)
    assert (narrow.plan.n_columns, narrow.plan.n_rows) == (1, 1)
    assert_same(gradients(narrow), wanted)
    still = network_of(ensemble, directed, SammeR(), moves=("learners", "etas"))
    assert still.plan.is_held
    assert_same(gradients(still), {kind: wanted[kind] for kind in ("learners", "etas")})


def test_scores_on_a_directed_graph_follow_the_hops(
    directed: Problem, boosted: Callable[..., Ensemble]
) -> None:
    network = network_of(boosted(directed, Lazy(), SammeR()), directed, SammeR())
    with torch.no_grad():
        network.hops.thetas[3] += 0.2
    voting = voting_of(directed, SammeR())
    wanted = apply(network.rebuild(), directed.inputs, voting)[directed.validation.rows]
    torch.testing.assert_close(network.scores(network.validation, voting), wanted, rtol=1e-10, atol=1e-10)


def test_nothing_to_move_is_an_error(three_classes: Problem, boosted: Callable[..., Ensemble]) -> None:
    ensemble = boosted(three_classes, Adjacency(), SammeR(), 2)
    with pytest.raises(ParameterError, match="leaves nothing to move"):
        network_of(ensemble, three_classes, SammeR(), moves=("aggregation",))


@pytest.mark.parametrize("is_directed", [False, True])
def test_sparse_features_have_the_gradients_of_dense_ones(
    is_directed: bool, three_classes: Problem, directed: Problem, boosted: Callable[..., Ensemble]
) -> None:
    problem = directed if is_directed else three_classes
    X = problem.inputs.features.dense()
    rows = SparseRows.from_scipy(sp.csr_array(X.numpy()), dtype=torch.float64)
    sparse = replace(problem, inputs=replace(problem.inputs, features=rows))
    ensemble = boosted(problem, KernelTargetAlignment(), SammeR())
    wanted = gradients(network_of(ensemble, problem, SammeR()))
    for limit in (2**31, least_limit(ensemble, sparse, SammeR())):
        network = network_of(ensemble, sparse, SammeR(), memory_limit=limit)
        assert_same(gradients(network), wanted)
    assert (network.plan.n_columns, network.plan.n_rows) == (1, 1)


def test_votes_for_one_class_are_softened_and_others_stay(
    three_classes: Problem, boosted: Callable[..., Ensemble]
) -> None:
    for rule in (Samme(), RULES["labels"]):
        network = network_of(boosted(three_classes, Adjacency(), rule, 2), three_classes, rule)
        hard = voting_of(three_classes, rule)
        assert hard.is_choice
        assert not network.voting.is_choice
        before, soft = (network.scores(network.train, voting) for voting in (hard, network.voting))
        assert not torch.allclose(before, soft)
        found = unrolled(network.ensemble, three_classes, rule)["scores"]
        torch.testing.assert_close(soft, found[three_classes.train.rows], rtol=1e-9, atol=1e-10)
    for rule in (SammeR(), RULES["softmax"]):
        ensemble, voting = boosted(three_classes, Adjacency(), rule, 2), voting_of(three_classes, rule)
        loss, metric = rule.loss_for(three_classes.task), as_metric("accuracy")
        assert MultiScaleNetwork(ensemble, three_classes, voting, loss, metric).voting is voting


@pytest.mark.parametrize("metric", ["accuracy", "neg_log_loss", "f1_macro"])
def test_what_is_measured_is_the_metric_of_the_ordinary_prediction(
    metric: str, three_classes: Problem, boosted: Callable[..., Ensemble]
) -> None:
    from sklearn.metrics import accuracy_score, f1_score, log_loss

    rule = SammeR()
    ensemble = boosted(three_classes, Lazy(), rule, 4)
    network = network_of(ensemble, three_classes, rule, metric=as_metric(metric))
    voting, val = network.voting, three_classes.validation
    proba = voting.link(apply(ensemble, three_classes.inputs, voting)[val.rows], sum(ensemble.etas)).numpy()
    y, decided = val.targets.numpy(), proba.argmax(axis=1)
    wanted = {
        "accuracy": accuracy_score(y, decided),
        "neg_log_loss": -log_loss(y, proba),
        "f1_macro": f1_score(y, decided, average="macro"),
    }
    measured = network.measure(voting)
    assert measured[f"val_{metric}"] == pytest.approx(wanted[metric], rel=1e-9)
    assert list(measured) == ["train_loss", f"train_{metric}", "val_loss", f"val_{metric}"]
    assert network.measure(voting, ["val"]) == {
        name: measured[name] for name in ("val_loss", f"val_{metric}")
    }


def test_numbers_are_measured_by_their_own_metric(numbers: Problem, boosted: Callable[..., Ensemble]) -> None:
    network = network_of(boosted(numbers, Adjacency(), RULES["squared"], 2), numbers, RULES["squared"])
    assert list(network.measure(network.voting)) == ["train_loss", "train_r2", "val_loss", "val_r2"]
