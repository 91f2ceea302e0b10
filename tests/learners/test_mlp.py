from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gbgnn import FineTuner, FunctionalGradient, GBGNNClassifier, Graph, Stages, load
from gbgnn.errors import ParameterError
from gbgnn.learners import MLP, MLPHead, batched
from gbgnn.learners.mlp import BATCH, MOST_AT_ONCE, MOST_STEPS
from gbgnn.losses import SigmoidCrossEntropy
from gbgnn.population import PopulationInputs, train_population
from gbgnn.propagation import DenseRows, SparseRows
from gbgnn.rounds import RoundContext
from gbgnn.testing import check_learner, learner_round, two_blocks


def make_round(regression: bool = False, n_val: int = 0, seed: int = 0) -> RoundContext:
    """40 nodes of three classes, 15 of them labelled."""
    graph, y = two_blocks(40, n_classes=3)
    X, classes = torch.tensor(graph.features), torch.tensor(y)
    targets = torch.nn.functional.one_hot(classes).double() if regression else classes
    rows, watched = torch.arange(15), torch.arange(15, 15 + n_val)
    val = (watched, targets[watched]) if n_val else None
    return learner_round(X, targets[:15], rows=rows, val=val, seed=seed)


def asking(kind: str, seed: int = 0) -> RoundContext:
    """A round that asks for classes, numbers or several labels, some nodes weighing more than others."""
    context = make_round(regression=kind != "classes", seed=seed)
    weights = torch.linspace(1, 2, 15, dtype=torch.float64)
    task = replace(context.weak_task, weights=weights / weights.sum())
    return replace(context, task=replace(task, loss=SigmoidCrossEntropy()) if kind == "labels" else task)


def wider_round() -> RoundContext:
    """A round with more columns, as after a hop that adds some."""
    context = make_round()
    X = context.X.dense()
    return replace(context, X=DenseRows(torch.cat([X, X**2], dim=1)))


def labelled_rows(context: RoundContext) -> torch.Tensor:
    return context.X.rows(context.weak_task.rows)


@pytest.mark.parametrize("hidden_layers", range(5))
@pytest.mark.parametrize("batch_size", [None, 4])
def test_learner_keeps_its_contract(hidden_layers: int, batch_size: int | None) -> None:
    check_learner(MLP(hidden_layers=hidden_layers, batch_size=batch_size, epochs=5))


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "rmsprop"])
@pytest.mark.parametrize("regression", [False, True])
def test_every_optimizer_lowers_the_loss(optimizer: str, regression: bool) -> None:
    context = make_round(regression)
    task, X = context.weak_task, labelled_rows(context)
    learner = MLP(optimizer=optimizer, learning_rate=0.05, momentum=0.1, epochs=60, weight_decay=0, dropout=0)
    before, after = (learner.set_params(epochs=n).fit(context)(X) for n in (0, 60))
    if regression:
        assert (after - task.targets).square().mean() < 0.7 * (before - task.targets).square().mean()
    else:
        loss = torch.nn.functional.cross_entropy
        assert loss(after, task.targets) < 0.7 * loss(before, task.targets)


@pytest.mark.parametrize("hidden_layers", range(5))
@pytest.mark.parametrize("kind", ["classes", "numbers", "labels"])
def test_full_batch_training_equals_plain_torch(hidden_layers: int, kind: str) -> None:
    """Weighted loss, weight decay, any depth: the same numbers as torch's modules, autograd and Adam."""
    context = asking(kind)
    task = context.weak_task
    X = context.X.dense()
    learner = MLP(hidden_layers=hidden_layers, dropout=0, standardize=False, weight_decay=0.1, units=7)
    net = learner.set_params(epochs=0).fit(context).requires_grad_(True)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01, weight_decay=0.1)
    for _ in range(20):
        optimizer.zero_grad()
        output = net(X[task.rows])
        if kind == "numbers":
            losses = (output - task.targets).square().sum(dim=1)
        elif kind == "labels":
            entropy = torch.nn.functional.binary_cross_entropy_with_logits
            losses = entropy(output, task.targets, reduction="none").sum(dim=1)
        else:
            losses = torch.nn.functional.cross_entropy(output, task.targets, reduction="none")
        (losses * task.weights).sum().backward()
        optimizer.step()
    fitted = learner.set_params(epochs=20).fit(context)
    torch.testing.assert_close(fitted(X), net(X).detach(), rtol=1e-9, atol=1e-9)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kind=st.sampled_from(["classes", "numbers", "labels"]),
    seed=st.integers(0, 2**62),
    chosen=st.fixed_dictionaries(
        {
            "hidden_layers": st.integers(0, 3),
            "units": st.integers(1, 9),
            "dropout": st.sampled_from([0.0, 0.3, 0.9]),
            "optimizer": st.sampled_from(["adam", "rmsprop", "sgd"]),
            "learning_rate": st.sampled_from([0.01, 0.1]),
            "momentum": st.sampled_from([0.0, 0.5]),
            "weight_decay": st.sampled_from([None, 0.0, 0.1]),
            "epochs": st.integers(0, 5),
            "batch_size": st.sampled_from([None, 1, 4, 15, 100]),
            "norm": st.sampled_from([None, "layer"]),
        }
    ),
)
def test_training_by_any_settings_equals_plain_torch(
    plainly, kind: str, seed: int, chosen: dict[str, object]
) -> None:
    """Minibatches, dropout, penalty, momentum: a network at a time, by autograd and torch's optimisers."""
    context, learner = asking(kind, seed), MLP(standardize=False, **chosen)
    task, rows = context.weak_task, labelled_rows(context)
    layers = plainly.train(learner, rows, task.targets, task.weights, task.loss, 3, seed)
    expected = plainly.apply(layers, context.X.dense(), norm=learner.norm)
    # Adam divides tiny gradients by their size, so that rounding can show.
    torch.testing.assert_close(learner.fit(context).evaluate(context.X), expected, rtol=1e-8, atol=1e-8)


def test_one_round_may_train_networks_of_several_kinds_one_after_another() -> None:
    """As a learner does that is made of several, and one that is asked again with other settings."""
    context, X = make_round(), make_round().X
    learners = [
        MLP(units=4, epochs=3),
        MLP(units=9, epochs=6, batch_size=4),
        MLP(units=4, epochs=0),
        MLP(units=9, epochs=3, dropout=0.0, optimizer="sgd"),
        MLP(hidden_layers=2, epochs=3),
    ]
    for learner in [*learners, *reversed(learners)]:
        expected = learner.fit(make_round()).evaluate(X)
        assert torch.equal(learner.fit(context).evaluate(X), expected)


def test_memory_of_a_round_serves_another_with_other_rows_and_targets() -> None:
    first, learner = make_round(), MLP(epochs=4, units=5)
    learner.fit(first)
    for other in (make_round(regression=True, seed=3), asking("labels", 4), wider_round()):
        kept = replace(other, workspace=first.workspace, t=2)
        expected = learner.fit(other).evaluate(other.X)
        assert torch.equal(learner.fit(kept).evaluate(other.X), expected)


def test_the_penalty_gives_way_to_many_rows() -> None:
    assert [MLP().penalty(n) for n in (1, 200, 1000)] == [0.005, 0.005, 0.001]
    assert [MLP(weight_decay=w).penalty(1000) for w in (0.0, 0.3)] == [0.0, 0.3]
    X = torch.linspace(-1, 1, 400, dtype=torch.float64)[:, None]
    context = learner_round(X, (X[:, 0] > 0).long())
    fitted, same, other = (MLP(weight_decay=w, epochs=5).fit(context) for w in (None, 1 / 400, 0.005))
    assert torch.equal(fitted(X), same(X))
    assert not torch.equal(fitted(X), other(X))


def test_many_rows_are_taken_in_small_batches_and_few_epochs_unless_told() -> None:
    few, many = MLP().settings(MOST_AT_ONCE), MLP().settings(150 * BATCH)
    assert (few.batch_size, few.epochs) == (None, 50)
    assert (many.batch_size, many.epochs) == (BATCH, MOST_STEPS // 150)
    assert MLP(epochs=1).settings(MOST_AT_ONCE + 1).epochs == 1
    assert MLP().settings(1000 * MOST_STEPS * BATCH).epochs == 1
    told = MLP(batch_size=10**9, epochs=7).settings(150 * BATCH)
    assert (told.batch_size, told.epochs) == (10**9, 7)


@pytest.mark.parametrize("n_members", [1, 2])
def test_dropout_is_the_same_where_rows_are_hashed_step_by_step(
    monkeypatch: pytest.MonkeyPatch, n_members: int
) -> None:
    graph, y = two_blocks(30)
    train, rest, found = np.arange(24), np.arange(24, 30), []
    for most in (batched._MOST_PLACES, 1):
        monkeypatch.setattr(batched, "_MOST_PLACES", most)
        models = [
            GBGNNClassifier(learner=MLP(hidden_layers=2, batch_size=7, epochs=3), n_rounds=2, random_state=i)
            for i in range(n_members)
        ]
        labels = (train, y[train])
        inputs = PopulationInputs.from_model(models[0], *labels, graph=graph, validation=(rest, y[rest]))
        found.append([result.val_scores for result in train_population(inputs, models)])
        found[-1].append(models[0].fit(*labels, graph=graph).scores_.tolist())
    assert found[0] == found[1]


def test_initialisation_is_torchs_default_distribution() -> None:
    head = MLP(basis="features", units=300, epochs=0).fit(learner_round(torch.zeros(2, 400), torch.arange(2)))
    bound = 1 / math.sqrt(400)
    weight = head.layers[0].weight
    reference = torch.nn.Linear(400, 300).weight
    assert weight.abs().max() <= bound
    assert weight.std() == pytest.approx(reference.std().item(), rel=0.02)


def test_global_random_state_is_neither_read_nor_changed() -> None:
    context = make_round(seed=5)
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = MLP(epochs=3, batch_size=4).fit(context).evaluate(context.X)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert torch.equal(MLP(epochs=3, batch_size=4).fit(context).evaluate(context.X), first)


def test_dropout_acts_in_training_only() -> None:
    context = make_round()
    X = context.X
    on, off = (MLP(dropout=p, epochs=5).fit(context) for p in (0.5, 0.0))
    assert not torch.equal(on.evaluate(X), off.evaluate(X))
    assert torch.equal(on.evaluate(X), on.evaluate(X))


def test_standardized_inputs_make_unit_and_offset_of_the_features_irrelevant() -> None:
    context = make_round()
    X = context.X.dense()
    moved = [DenseRows(Z) for Z in (1e-6 * X, 1e3 * X, X + torch.arange(5))]
    first, *others = (MLP(epochs=20).fit(replace(context, X=Z)).evaluate(Z) for Z in moved)
    for other in others:
        torch.testing.assert_close(other, first, rtol=1e-6, atol=1e-8)


def test_all_zero_features_do_not_divide_by_zero() -> None:
    context = make_round()
    zeros = DenseRows(torch.zeros_like(context.X.dense()))
    assert MLP(epochs=2).fit(replace(context, X=zeros)).evaluate(context.X).isfinite().all()


@pytest.mark.parametrize("regression", [False, True])
def test_patience_returns_the_weights_of_the_best_validation_loss(regression: bool) -> None:
    context = make_round(regression, n_val=15)
    task, watched = context.weak_task, context.X.rows(context.weak_task.val_rows)
    settings = {"learning_rate": 0.1, "weight_decay": 0.0, "dropout": 0.0, "units": 64}

    def val_loss(epochs: int) -> float:
        output = MLP(epochs=epochs, **settings).fit(context)(watched)
        if regression:
            return float((output - task.val_targets).square().sum(dim=1).mean())
        return float(torch.nn.functional.cross_entropy(output, task.val_targets))

    stopped = MLP(epochs=60, patience=60, **settings).fit(context)(watched)
    curve = [val_loss(n) for n in range(1, 61)]
    best = int(np.argmin(curve)) + 1
    expected = MLP(epochs=best, **settings).fit(context)(watched)
    assert best < 60
    torch.testing.assert_close(stopped, expected)


def test_patience_ends_training_early() -> None:
    context = make_round(n_val=15)
    task = context.weak_task
    context = replace(context, task=replace(task, val_targets=(task.val_targets + 1) % 3))
    long, short = (
        MLP(epochs=n, patience=1, learning_rate=0.1).fit(context).evaluate(context.X) for n in (10**6, 1)
    )
    assert torch.equal(long, short)  # every epoch makes wrong validation labels worse


def test_patience_without_validation_is_an_error() -> None:
    with pytest.raises(ParameterError, match="MLP.patience stops on validation nodes, but there are none"):
        MLP(patience=3).fit(make_round())


def test_validation_nodes_are_watched_only_with_patience() -> None:
    assert not MLP().watches_validation
    assert MLP(patience=1).watches_validation
    with_val, without = make_round(n_val=15), make_round()
    same = [MLP(epochs=3).fit(context).evaluate(context.X) for context in (with_val, without)]
    assert torch.equal(*same)


def test_sparse_rows_train_the_same_network() -> None:
    context = make_round()
    X = context.X.dense().clone()
    X[X.abs() < 1] = 0
    sparse = SparseRows.from_scipy(sp.csr_array(X.numpy()), dtype=torch.float64)
    heads = [MLP(epochs=3).fit(replace(context, X=rows)) for rows in (DenseRows(X), sparse)]
    assert torch.equal(heads[0](X), heads[1](X))


def test_state_round_trips() -> None:
    context = make_round()
    head = MLP(hidden_layers=2, epochs=2).fit(context)
    assert torch.equal(MLPHead.from_state(head.state()).evaluate(context.X), head.evaluate(context.X))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"hidden_layers": 5}, "hidden_layers must be an integer from 0 to 4; got 5"),
        ({"units": 0}, "units must be an integer >= 1; got 0"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\); got 1.0"),
        ({"optimizer": "adm"}, "optimizer must be one of .* Did you mean 'adam'"),
        ({"learning_rate": "fast"}, r"learning_rate must be in \(0, inf\); got 'fast'"),
        ({"momentum": -0.1}, r"momentum must be in \[0, 1\); got -0.1"),
        ({"weight_decay": -1}, r"weight_decay must be in \[0, inf\); got -1"),
        ({"epochs": True}, "epochs must be an integer >= 0; got True"),
        ({"batch_size": 0}, "batch_size must be an integer >= 1, or None; got 0"),
        ({"patience": 0}, "patience must be an integer >= 1, or None; got 0"),
    ],
)
def test_settings_are_checked(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ParameterError, match=f"MLP.{message}"):
        MLP(**settings).check()


def test_a_table_in_any_units_is_learned_where_columns_are_scaled() -> None:
    graph, y = two_blocks(120, n_classes=3)
    noise = 1e4 * np.random.default_rng(0).standard_normal((120, 2))
    graph = Graph(np.zeros((120, 120)), np.hstack([np.asarray(graph.features), noise]))
    train, test = np.arange(80), np.arange(80, 120)
    by_rows, by_columns = (
        GBGNNClassifier(learner=MLP(scale_by=scale_by), n_rounds=5, random_state=0)
        .fit(train, y[train], graph=graph)
        .score(test, y[test])
        for scale_by in ("rows", "columns")
    )
    assert by_columns > by_rows + 0.2


def test_standardised_layers_are_kept_in_files_and_move_in_fine_tuning(tmp_path) -> None:
    graph, y = two_blocks(120, n_classes=3)
    train, val = np.arange(50), np.arange(50, 90)
    model = GBGNNClassifier(
        learner=Stages(first=MLP(norm="layer", hidden_layers=2, patience=5), then=MLP(hidden_layers=2)),
        rule=FunctionalGradient(target="loss"),
        n_rounds=3,
        random_state=0,
        fine_tune=FineTuner(epochs=3),
        select="last",
    )
    model.fit(train, y[train], graph=graph, validation=(val, y[val]))
    assert [each.head.is_normed for each in model.model_.ensemble] == [True, False, False]
    assert model.score(np.arange(90, 120), y[90:]) > 0.6
    model.save(tmp_path / "model.gbgnn")
    again = load(tmp_path / "model.gbgnn")
    expected = model.predict_proba(np.arange(120), graph=graph)
    np.testing.assert_array_equal(again.predict_proba(np.arange(120), graph=graph), expected)
    assert again.model_.ensemble[0].head.importances() is None


def test_patience_goes_back_to_the_least_loss_of_scores_and_output() -> None:
    random = torch.Generator().manual_seed(0)
    offsets = 2.0 * torch.randn(40, 3, generator=random, dtype=torch.float64)

    def validation_loss(**settings: object) -> float:
        context = make_round(n_val=20)
        task = context.weak_task
        told = replace(task, offsets=offsets[task.rows], val_offsets=offsets[task.val_rows])
        learner = MLP(learning_rate=0.1, norm="layer", scale_by="columns", **settings)
        scores = learner.fit(replace(context, task=told)).evaluate(context.X) + offsets
        return float(torch.nn.functional.cross_entropy(scores[task.val_rows], task.val_targets))

    losses = [validation_loss(epochs=n) for n in range(1, 13)]
    assert min(losses) < losses[-1]
    assert validation_loss(epochs=12, patience=12) == pytest.approx(min(losses))


@pytest.mark.parametrize("setting", [{"norm": "batch"}, {"scale_by": "row"}])
def test_unknown_words_are_refused(setting: dict[str, str]) -> None:
    with pytest.raises(ParameterError, match=f"MLP.{next(iter(setting))} must be one of"):
        MLP(**setting).check()
