from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch.func import functional_call

from gbgnn import MLP, FineTuner, FunctionalGradient, GBGNNClassifier, GBGNNRegressor, Samme
from gbgnn._random import Seeds
from gbgnn.aggregation import Aggregation, Beside, LearnedHop, LearnedHops
from gbgnn.boosting import Ensemble, apply, boost
from gbgnn.boosting.rules import BoostingRule
from gbgnn.errors import ParameterError
from gbgnn.finetuning import layered
from gbgnn.finetuning.layered import LayeredNetwork
from gbgnn.graph import Graph
from gbgnn.metrics import as_metric
from gbgnn.problem import Problem
from gbgnn.propagation import Representation
from gbgnn.testing import make_problem, two_blocks

Parts = tuple[Any, ...]


def directed() -> Problem:
    graph, y = two_blocks(30)
    A = np.triu(graph.adjacency.toarray()) + np.eye(30)
    return make_problem(Graph(A, graph.features), y, np.arange(12), np.arange(12, 20))


def parts_of(
    problem: Problem,
    aggregation: Aggregation | None = None,
    rule: BoostingRule | None = None,
    n_rounds: int = 5,
    hidden_layers: int = 1,
) -> Parts:
    """Return what a network is made of: a small boosted model and its problem."""
    rule = FunctionalGradient() if rule is None else rule
    learner = MLP(epochs=10, units=4, dropout=0.0, hidden_layers=hidden_layers)
    chosen = LearnedHops() if aggregation is None else aggregation
    ensemble = boost(problem, chosen, learner, rule, n_rounds=n_rounds, seeds=Seeds(0)).ensemble
    return (
        ensemble,
        problem,
        rule.voting_for(problem.task),
        rule.loss_for(problem.task),
        as_metric("accuracy"),
    )


def autograd_loss(network: LayeredNetwork, problem: Problem, scale: float = 1.0) -> torch.Tensor:
    """Return the loss of the labelled nodes by one expression, that autograd goes back through."""
    features = problem.inputs.features.dense()
    hops = network.ensemble.hops
    X, scores, H = features, 0.0, None
    for t, stack in enumerate(network.stacks):
        hop = hops[t]
        if isinstance(hop, LearnedHop):
            walks = [
                torch.tensor(problem.inputs.neighbours[d].walk.to_scipy().toarray()) for d in hop.directions
            ]
            assert H is not None
            X = torch.cat([H, *(walk @ H for walk in walks), features], dim=1)
        raw = {name: value[0] for name, value in stack.raw().items()}
        head = stack.heads[0]
        H = X
        for weight, bias in head.hidden_layers:
            H = (H @ raw[weight].T + raw[bias]).relu()
        output = functional_call(head, raw, X)
        scores = scores + network.etas[t] * network.voting.direction(output)
    train = problem.train
    values = network.loss.values(scores[train.rows].double(), train.targets)  # type: ignore[index]
    return scale * (values * train.weights).sum()


def limits(parts: Parts) -> list[int]:
    """Return a limit that holds everything, and the least there is."""
    with pytest.raises(ParameterError, match=r"memory_limit must be at least [\d,]+ bytes") as error:
        LayeredNetwork(*parts, memory_limit=1)
    least = int(str(error.value).split("at least ")[1].split(" bytes")[0].replace(",", ""))
    with pytest.raises(ParameterError, match="memory_limit must be at least"):
        LayeredNetwork(*parts, memory_limit=least - 1)
    return [2**31, least]


@pytest.mark.parametrize("hidden_layers", [1, 2])
@pytest.mark.parametrize("rule", [FunctionalGradient(), Samme()])
@pytest.mark.parametrize("is_directed", [False, True])
def test_gradients_are_those_of_plain_autograd(
    three_classes: Problem, rule: BoostingRule, is_directed: bool, hidden_layers: int
) -> None:
    problem = directed() if is_directed else three_classes
    parts = parts_of(problem, rule=rule, hidden_layers=hidden_layers)
    for limit in limits(parts):
        network = LayeredNetwork(*parts, memory_limit=limit)
        assert network.plan.is_held == (limit == 2**31)
        loss = network.accumulate(network.train, 0.7)
        ours = network.take_gradients()
        wanted = autograd_loss(network, problem, 0.7)
        assert loss == pytest.approx(float(wanted.detach()), rel=1e-12)
        wanted.backward()
        theirs = network.take_gradients()
        assert set(ours) == {"learners", "etas"}
        assert all(float(each.norm()) > 0 for each in theirs["learners"][:2])
        for kind, gradients in theirs.items():
            torch.testing.assert_close(ours[kind], gradients, rtol=1e-6, atol=1e-12)


def test_gradients_of_batches_add_up(three_classes: Problem) -> None:
    parts = parts_of(three_classes)
    network = LayeredNetwork(*parts)
    whole = network.accumulate(network.train)
    wanted = network.take_gradients()
    order = torch.randperm(15, generator=torch.Generator().manual_seed(0))
    assert sum(network.accumulate(part) for part in order.split(4)) == pytest.approx(whole)
    torch.testing.assert_close(network.take_gradients(), wanted, rtol=1e-9, atol=1e-13)


def test_a_later_round_moves_the_hidden_layer_of_an_earlier_one(three_classes: Problem) -> None:
    ensemble, *rest = parts_of(three_classes, n_rounds=3)
    silent = Ensemble((*(replace(each, eta=0.0) for each in ensemble[:2]), ensemble[2]))
    network = LayeredNetwork(silent, *rest, moves=("learners",))
    network.accumulate(network.train)
    gradients = network.take_gradients()["learners"]
    assert float(gradients[0].norm()) > 0  # through two hops
    assert float(gradients[2].norm()) == 0  # the first head's last layer, which has no say


class Saved:
    """Counts what autograd keeps: bytes now, and the most there were."""

    def __init__(self) -> None:
        self.now = self.most = 0

    def pack(self, tensor: torch.Tensor) -> Any:
        count = self

        class Handle:
            def __init__(self) -> None:
                self.tensor = tensor
                count.now += tensor.nbytes
                count.most = max(count.most, count.now)

            def __del__(self) -> None:
                count.now -= tensor.nbytes

        return Handle()

    @staticmethod
    def unpack(handle: Any) -> torch.Tensor:
        kept: torch.Tensor = handle.tensor
        return kept

    def measure(self, work: Callable[[], Any]) -> int:
        with torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack):
            work()
        return self.most


def test_what_autograd_keeps_does_not_grow_with_rounds(three_classes: Problem) -> None:
    ours, theirs = [], []
    for n_rounds in (4, 16):
        network = LayeredNetwork(*parts_of(three_classes, n_rounds=n_rounds))
        ours.append(Saved().measure(lambda network=network: network.accumulate(network.train)))
        theirs.append(
            Saved().measure(lambda network=network: autograd_loss(network, three_classes).backward())
        )
    assert ours[1] <= 1.05 * ours[0]
    assert theirs[1] > 3 * theirs[0]
    assert ours[1] < theirs[1] / 3


def test_the_fewest_representations_are_alive_where_memory_is_short(
    three_classes: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive: list[int] = [0, 0]  # now, and the most

    class Counted:
        def __init__(self) -> None:
            alive[0] += 1
            alive[1] = max(alive)

        def __del__(self) -> None:
            alive[0] -= 1

    advance = LayeredNetwork.advance

    def count(self: LayeredNetwork, t: int, X: Representation) -> Representation:
        result = advance(self, t, X)
        object.__setattr__(result, "counted", Counted())
        return result

    monkeypatch.setattr(layered.LayeredNetwork, "advance", count)
    parts = parts_of(three_classes, n_rounds=16)
    most = []
    for limit in limits(parts):
        network = LayeredNetwork(*parts, memory_limit=limit)
        alive[:] = [0, 0]
        network.accumulate(network.train)
        most.append(alive[1])
    assert most[0] == 15
    assert most[1] <= math.log2(16) + 2


@pytest.mark.parametrize("aggregation", [LearnedHops(), Beside(statistics=("mean", "max"))])
@pytest.mark.parametrize("moves", [("learners", "etas", "aggregation"), ("etas",), ("learners",)])
def test_the_rebuilt_model_predicts_what_the_network_did(
    three_classes: Problem, aggregation: Aggregation, moves: tuple[str, ...]
) -> None:
    parts = parts_of(three_classes, aggregation)
    for limit in limits(parts):
        network = LayeredNetwork(*parts, moves=moves, memory_limit=limit)
        voting = parts[2]
        rows = three_classes.train.rows
        before = apply(parts[0], three_classes.inputs, voting)[rows]
        torch.testing.assert_close(network.scores(network.train, voting), before, rtol=1e-9, atol=1e-9)
        network.accumulate(network.train)
        gradients, parameters = network.take_gradients(), network.parameters()
        with torch.no_grad():
            for kind, own in gradients.items():
                for value, gradient in zip(parameters[kind], own, strict=True):
                    value -= 0.1 * gradient
        after = apply(network.rebuild(), three_classes.inputs, voting)[rows]
        torch.testing.assert_close(network.scores(network.train, voting), after, rtol=1e-9, atol=1e-9)
        assert not torch.allclose(after, before)


def test_columns_beside_have_the_gradients_of_autograd(three_classes: Problem) -> None:
    parts = parts_of(three_classes, Beside())
    found = []
    for limit in limits(parts):
        network = LayeredNetwork(*parts, memory_limit=limit)
        network.accumulate(network.train)
        found.append(network.take_gradients())
    torch.testing.assert_close(found[0], found[1], rtol=1e-9, atol=1e-13)
    X, scores = three_classes.inputs.features, 0.0
    for t, (trained, stack) in enumerate(zip(network.ensemble, network.stacks, strict=True)):
        X = trained.hop(X, three_classes.inputs)
        raw = {name: value[0] for name, value in stack.raw().items()}
        output = functional_call(stack.heads[0], raw, X.rows(three_classes.train.rows))
        scores = scores + network.etas[t] * network.voting.direction(output)
    values = network.loss.values(scores, three_classes.train.targets)  # type: ignore[arg-type]
    (values * three_classes.train.weights).sum().backward()
    torch.testing.assert_close(found[0], network.take_gradients(), rtol=1e-9, atol=1e-13)


def test_aggregation_alone_has_nothing_to_move(three_classes: Problem) -> None:
    with pytest.raises(ParameterError, match="leaves nothing to move"):
        LayeredNetwork(*parts_of(three_classes), moves=("aggregation",))


@pytest.mark.parametrize("aggregation", ["learned", "beside"])
def test_a_fit_with_fine_tuning_lowers_the_loss_and_saves(aggregation: str, tmp_path: Any) -> None:
    from gbgnn import load

    graph, y = two_blocks(60)
    tuner = FineTuner(epochs=20, learning_rate=0.01, keep="tuned", batch_size=10)
    model = GBGNNClassifier(
        preset="fast", aggregation=aggregation, learner=MLP(units=6, epochs=5), n_rounds=4, fine_tune=tuner,
        select="last", random_state=0,
    )  # fmt: skip
    model.fit(np.arange(30), y[:30], graph=graph)
    done = model.fine_tuning_
    assert done["after"]["train_loss"] < done["before"]["train_loss"]
    model.save(tmp_path / "m.gbgnn")
    loaded = load(tmp_path / "m.gbgnn")
    nodes = np.arange(60)
    np.testing.assert_array_equal(loaded.predict_proba(nodes, graph=graph), model.predict_proba(nodes))
    notes = " ".join(model.certificate_.notes)
    assert "before fine-tuning moved them" in notes


def test_numbers_are_tuned_too() -> None:
    graph, _ = two_blocks(60)
    y = np.asarray(graph.adjacency @ np.asarray(graph.features)[:, 0])
    tuner = FineTuner(epochs=20, learning_rate=0.01, keep="tuned")
    model = GBGNNRegressor(preset="fast", aggregation="learned", n_rounds=3, fine_tune=tuner, random_state=0)
    model.fit(np.arange(30), y[:30], graph=graph)
    done = model.fine_tuning_
    assert done["after"]["train_loss"] < done["before"]["train_loss"]
