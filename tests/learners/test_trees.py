from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone

import gbgnn
from gbgnn import (
    BoostedTrees,
    FineTuner,
    FunctionalGradient,
    GBGNNClassifier,
    Graph,
    Regression,
    Samme,
    SammeR,
    datasets,
)
from gbgnn._random import Seeds
from gbgnn.averaging import select_average
from gbgnn.boosting import Member, boost_many
from gbgnn.errors import MissingDependencyError, ModelFileError, ParameterError
from gbgnn.learners import TreesHead, trees
from gbgnn.learners.tree_head import AveragedTrees
from gbgnn.learners.tree_libraries import Forest
from gbgnn.learners.trees import find_categories, sample_task
from gbgnn.losses import SquaredError
from gbgnn.population import PopulationInputs, train_population
from gbgnn.propagation import DenseRows
from gbgnn.registry import as_part
from gbgnn.rounds import RoundContext, WeakTask
from gbgnn.search import Choice, Integer, Real, SearchSpace, tune
from gbgnn.tables import RawColumns
from gbgnn.testing import check_learner, learner_round, make_problem, two_blocks

LIBRARIES = ("sklearn", "lightgbm", "xgboost")
RULES = (FunctionalGradient(), FunctionalGradient(target="labels"), Samme(), SammeR())
X = torch.tensor(np.random.default_rng(0).normal(size=(60, 3)))
LABELS = (X[:, 0] > 0).long() + (X[:, 1] > 0).long()
NUMBERS = torch.stack([X[:, 0].abs(), X[:, 1] * 2], dim=1)


@pytest.mark.parametrize("library", ["auto", *LIBRARIES])
def test_classes_keep_the_contract(library: str) -> None:
    check_learner(BoostedTrees(library=library, n_trees=5))


@pytest.mark.parametrize("library", LIBRARIES)
def test_numbers_keep_the_contract(library: str) -> None:
    rows = torch.arange(12)
    targets = torch.randn(12, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    weights = torch.full((12,), 1 / 12, dtype=torch.float64)
    asked = WeakTask(rows, targets, weights, 3, SquaredError())
    check_learner(BoostedTrees(library=library, n_trees=5), asked)


@pytest.mark.parametrize("library", LIBRARIES)
def test_two_classes_have_two_logits(library: str) -> None:
    targets = (X[:, 0] > 0).long()
    output = BoostedTrees(library=library).fit(learner_round(X, targets))(X)
    assert output.shape == (60, 2)
    assert (output.argmax(dim=1) == targets).double().mean() > 0.95
    assert output[:, 0].abs().max() == 0


@pytest.mark.parametrize("library", LIBRARIES)
def test_every_column_of_numbers_is_fitted(library: str) -> None:
    head = BoostedTrees(library=library, n_trees=100).fit(learner_round(X, NUMBERS))
    assert len(head.models) == 2
    errors = (head(X) - NUMBERS).square().mean(dim=0) / NUMBERS.var(dim=0)
    assert errors.max() < 0.1


@pytest.mark.parametrize("library", LIBRARIES)
def test_weights_say_which_rows_count(library: str) -> None:
    weights = torch.where(torch.arange(60) < 30, 1.0, 1e-9).double()
    targets = torch.where(torch.arange(60) < 30, LABELS, (LABELS + 1) % 3)
    context = learner_round(X, targets, weights=weights / weights.sum())
    right = BoostedTrees(library=library).fit(context)(X).argmax(dim=1)[:30] == targets[:30]
    assert right.double().mean() > 0.95


@pytest.mark.parametrize("library", LIBRARIES)
def test_early_stopping_uses_the_validation_nodes_and_its_absence_none(library: str) -> None:
    train, val = torch.arange(30), torch.arange(30, 60)
    noise = torch.randint(3, (30,), generator=torch.Generator().manual_seed(0))
    context = learner_round(X, noise, rows=train, val=(val, LABELS[30:]), n_outputs=3)
    grown = {
        patience: len(BoostedTrees(library=library, patience=patience).fit(context).models[0].trees()[0])
        for patience in (1, None)
    }
    assert grown[1] < grown[None] == 3 * 50
    assert BoostedTrees().watches_validation
    assert not BoostedTrees(patience=None).watches_validation
    without = replace(context, task=replace(context.weak_task, val_rows=None, val_targets=None))
    assert len(BoostedTrees(library=library, patience=1).fit(without).models[0].trees()[0]) == 3 * 50


def test_leaves_have_a_twentieth_of_the_rows_unless_told() -> None:
    for n_rows, least in ((7, 1), (60, 3), (10_000, 20)):
        assert BoostedTrees()._growth(0, n_rows, 1).min_leaf == least
        assert BoostedTrees(min_leaf=4)._growth(0, n_rows, 1).min_leaf == 4


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"library": "lightbgm"}, "BoostedTrees.library must be one of auto, .*Did you mean 'lightgbm'"),
        ({"n_trees": 0}, "BoostedTrees.n_trees must be an integer >= 1; got 0"),
        ({"learning_rate": 0}, r"BoostedTrees.learning_rate must be in \(0, 1\]; got 0"),
        ({"max_leaves": 1}, "BoostedTrees.max_leaves must be an integer >= 2; got 1"),
        ({"min_leaf": 0}, "BoostedTrees.min_leaf must be an integer >= 1, or None; got 0"),
        ({"l2": -1}, r"BoostedTrees.l2 must be in \[0, inf\); got -1"),
        ({"subsample": 1.5}, r"BoostedTrees.subsample must be in \(0, 1\]; got 1.5"),
        ({"column_share": 0}, r"BoostedTrees.column_share must be in \(0, 1\]; got 0"),
        ({"patience": 0}, "BoostedTrees.patience must be an integer >= 1, or None; got 0"),
        ({"columns": "best"}, "BoostedTrees.columns must be one of average, all; got 'best'"),
        ({"max_bins": 256}, "BoostedTrees.max_bins must be an integer from 2 to 255; got 256"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        BoostedTrees(**settings).check()


@pytest.mark.skipif(find_spec("catboost") is not None, reason="CatBoost is installed")
def test_a_library_that_is_not_installed_is_named() -> None:
    with pytest.raises(MissingDependencyError, match=r'needs catboost: pip install "gbgnn\[catboost\]"'):
        BoostedTrees(library="catboost").check()
    state = BoostedTrees(n_trees=2).fit(learner_round(X, LABELS)).state()
    name = torch.frombuffer(bytearray(b"catboost"), dtype=torch.uint8)
    with pytest.raises(MissingDependencyError, match="needs catboost"):
        TreesHead.from_state(state | {"library": name})


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("targets", [LABELS, LABELS.clamp(max=1), NUMBERS], ids=["three", "two", "numbers"])
def test_heads_come_back_from_their_state_and_from_copies(library: str, targets: torch.Tensor) -> None:
    head = BoostedTrees(library=library, n_trees=5).fit(learner_round(X, targets))
    restored = TreesHead.from_state(head.state())
    for same in (restored, copy.deepcopy(head), pickle.loads(pickle.dumps(head))):
        assert torch.equal(same(X), head(X))
    assert restored.n_features == 3
    with pytest.raises(ParameterError, match="rows have 2 columns, but the trees have seen 3"):
        restored(X[:, :2])


def test_forged_states_are_refused() -> None:
    states = {
        name: BoostedTrees(library=name, n_trees=2).fit(learner_round(X, LABELS)).state()
        for name in LIBRARIES
    }
    junk = torch.frombuffer(bytearray(b"junk"), dtype=torch.uint8)
    wide = BoostedTrees(library="lightgbm", n_trees=2).fit(learner_round(X[:, :2], NUMBERS)).state()
    numbers = BoostedTrees(library="lightgbm", n_trees=2).fit(learner_round(X, NUMBERS)).state()
    forged = [{}, {"library": junk}, numbers | {"model.1": wide["model.0"]}]
    for state in states.values():
        forged += [
            state | {"library": junk},
            state | {"n_outputs": torch.tensor(4)},
            state | {"model.0": junk},
            state | {"model.0": state["model.0"][: len(state["model.0"]) // 2]},
            state | {"model.0": state["model.0"].double()},
            state | {"model.1": state["model.0"]},
            state | {"model.x": state["model.0"]},
        ]
    forged += [states["lightgbm"] | {"model.0": states["xgboost"]["model.0"]}]
    for state in forged:
        with pytest.raises(ModelFileError, match="its boosted trees cannot be read"):
            TreesHead.from_state(state)


def test_an_estimator_of_another_kind_is_no_tree_model() -> None:
    numbers = BoostedTrees(library="sklearn", n_trees=2).fit(learner_round(X, NUMBERS)).models[0]
    classes = BoostedTrees(library="sklearn", n_trees=2).fit(learner_round(X, LABELS)).models[0]
    for forged in (
        replace(numbers, n_classes=3),
        replace(classes, n_classes=0),
        replace(classes, n_classes=2),
    ):
        with pytest.raises(ValueError, match="stands for a|its classes are not among 2"):
            type(forged).from_bytes(forged.to_bytes())


def test_categories_are_those_of_the_raw_columns_in_the_first_round() -> None:
    rows = X.clone()
    rows[:, 2] = torch.arange(60) % 6
    context = learner_round(rows, (torch.arange(60) % 6 % 4 == 1).long())

    def show(*is_category: bool) -> RoundContext:
        raw = RawColumns(rows.numpy(), np.array(is_category), ["a", "b", "c"])
        inputs = replace(context.inputs, raw_columns=lambda: raw)
        return replace(context, problem=replace(context.problem, inputs=inputs))

    known = show(False, False, True)
    assert find_categories(context) is None
    assert find_categories(known).tolist() == [False, False, True]
    assert find_categories(replace(known, t=2)) is None
    assert find_categories(show(True)) is None
    trees, _ = BoostedTrees(n_trees=2).fit(known).models[0].trees()
    assert any(tree.has_categories for tree in trees)


def grouped_round(targets: torch.Tensor, *, offsets: torch.Tensor | None = None) -> RoundContext:
    """Three columns that come one after another, each with something to tell; half of the nodes validate."""
    train, val = torch.arange(0, 60, 2), torch.arange(1, 60, 2)
    n_outputs = targets.shape[1] if targets.is_floating_point() else int(targets.max()) + 1
    context = learner_round(X, targets[train], rows=train, val=(val, targets[val]), n_outputs=n_outputs)
    if offsets is not None:
        asked = replace(context.weak_task, offsets=offsets[train], val_offsets=offsets[val])
        context = replace(context, task=asked)
    inputs = replace(context.inputs, column_groups=(1, 2, 3))
    return replace(context, problem=replace(context.problem, inputs=inputs))


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("targets", [LABELS, LABELS.clamp(max=1), NUMBERS], ids=["three", "two", "numbers"])
def test_groups_of_columns_are_averaged_by_the_validation_nodes(library: str, targets: torch.Tensor) -> None:
    context = grouped_round(targets)
    task, learner = context.weak_task, BoostedTrees(library=library, n_trees=20, learning_rate=0.3)
    head = learner.fit(context)
    alone = []
    for n_columns in (1, 2, 3):
        inputs = replace(context.inputs, column_groups=(n_columns,))
        narrow = replace(
            context,
            X=type(context.X)(X[:, :n_columns]),
            problem=replace(context.problem, inputs=inputs),
        )
        alone.append(learner.fit(narrow))
    outputs = torch.stack([each(X[:, : i + 1]) for i, each in enumerate(alone)])
    weights = select_average(outputs[:, task.val_rows], task.loss, task.val_targets)
    expected = torch.einsum("m,mnk->nk", torch.tensor(weights), outputs)
    torch.testing.assert_close(head(X), expected, rtol=1e-6, atol=1e-6)
    kept = {str(i + 1): weight for i, weight in enumerate(weights) if weight}
    assert head.report() == {"columns": kept}
    assert [member.n_features for member in head.members] == [int(name) for name in kept]
    everything = BoostedTrees(library=library, n_trees=20, learning_rate=0.3, columns="all").fit(context)
    torch.testing.assert_close(everything(X), outputs[2], rtol=0, atol=0)


def test_averages_build_on_offsets() -> None:
    random = torch.Generator().manual_seed(0)
    offsets = torch.randn(60, 3, generator=random, dtype=torch.float64)
    context = grouped_round(LABELS, offsets=offsets)
    task, learner = context.weak_task, BoostedTrees(library="lightgbm", n_trees=20)
    losses = {}
    for columns in ("average", "all"):
        output = clone(learner).set_params(columns=columns).fit(context)(X)
        losses[columns] = float(task.loss.mean((output + offsets)[1::2], LABELS[1::2]))
    assert losses["average"] <= losses["all"] * (1 + 1e-9)


def averaged_head(library: str = "lightgbm") -> TreesHead:
    """Two members of two models each, on one column and on three."""
    weak = BoostedTrees(library=library, n_trees=3)
    narrow, wide = (weak.fit(learner_round(X[:, :n], NUMBERS)).models for n in (1, 3))
    return TreesHead([AveragedTrees(0.25, narrow), AveragedTrees(0.75, wide)], 2, 3)


@pytest.mark.parametrize("library", LIBRARIES)
def test_averages_come_back_from_their_state_and_single_models_have_no_weights(library: str) -> None:
    head = averaged_head(library)
    restored = TreesHead.from_state(head.state())
    assert torch.equal(restored(X), head(X))
    assert restored.report() == head.report() == {"columns": {"1": 0.25, "3": 0.75}}
    trees, base = head.trees()
    total = torch.tensor(np.tile(base, (60, 1)))
    for tree in trees:
        total[:, tree.column] += torch.tensor(tree.predict(X.float().numpy()))
    torch.testing.assert_close(total, head(X.float()).double(), rtol=1e-5, atol=1e-5)
    single = TreesHead([AveragedTrees(1.0, head.members[0].models)], 2, 3)
    assert set(single.state()) == {"library", "n_outputs", "n_features", "model.0", "model.1"}
    assert TreesHead.from_state(single.state()).report() == {"columns": {"1": 1.0}}


@pytest.mark.parametrize(
    "weights",
    [
        torch.tensor([0.5, 0.6], dtype=torch.float64),
        torch.tensor([0.5, 0.5]),
        torch.tensor([0.5, 0.25, 0.25], dtype=torch.float64),
        torch.tensor([1.5, -0.5], dtype=torch.float64),
        torch.tensor([float("nan"), 0.5], dtype=torch.float64),
        torch.tensor([1.0], dtype=torch.float64),
        torch.tensor([[0.5], [0.5]], dtype=torch.float64),
        torch.tensor(1.0, dtype=torch.float64),
        torch.empty(0, dtype=torch.float64),
    ],
)
def test_forged_weights_are_refused(weights: torch.Tensor) -> None:
    with pytest.raises(ModelFileError, match="its boosted trees cannot be read"):
        TreesHead.from_state(averaged_head().state() | {"weights": weights})


def test_members_that_do_not_fit_are_refused() -> None:
    numbers = BoostedTrees(library="sklearn", n_trees=2).fit(learner_round(X, NUMBERS[:, :1])).models
    classes = BoostedTrees(library="sklearn", n_trees=2).fit(learner_round(X, LABELS)).models
    mixed = TreesHead([AveragedTrees(0.5, numbers), AveragedTrees(0.5, classes)], 3, 3).state()
    state = averaged_head().state()
    without = {name: value for name, value in state.items() if name != "weights"}
    for forged in (
        mixed,
        without,
        state | {"model.1": state["model.2"]},
        state | {"n_features": torch.tensor(2)},
        {name: value for name, value in state.items() if name != "model.3"},
    ):
        with pytest.raises(ModelFileError, match="its boosted trees cannot be read"):
            TreesHead.from_state(forged)


def test_many_rows_are_grown_on_the_best_group_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = torch.arange(40)
    context = learner_round(X, NUMBERS[:40, :1], rows=rows, val=(torch.arange(40, 60), NUMBERS[40:, :1]))
    inputs = replace(context.inputs, column_groups=(2, 3))
    context = replace(context, problem=replace(context.problem, inputs=inputs))
    monkeypatch.setattr(trees, "MANY_ROWS", 30)
    head = BoostedTrees(n_trees=20, min_leaf=2).fit(context)
    assert [(member.weight, member.n_features) for member in head.members] in ([(1.0, 2)], [(1.0, 3)])
    (member,) = head.members
    alone = replace(context, X=DenseRows(X[:, : member.n_features].clone()))
    expected = BoostedTrees(n_trees=20, min_leaf=2, columns="all").fit(alone)
    np.testing.assert_array_equal(head(X), expected(X[:, : member.n_features]))


def test_variants_are_averaged_and_none_without_validation_nodes() -> None:
    random = torch.Generator().manual_seed(0)
    rows = torch.randn(300, 6, generator=random, dtype=torch.float64)
    noisy = rows.sum(dim=1, keepdim=True) + torch.randn(300, 1, generator=random, dtype=torch.float64)
    val = (torch.arange(150, 300), noisy[150:])
    context = learner_round(rows, noisy[:150], rows=torch.arange(150), val=val)
    weak = BoostedTrees(n_trees=60, patience=5)
    one, several = weak.fit(context), clone(weak).set_params(n_variants=3).fit(context)
    assert len(one.members) == 1
    assert len(several.members) == 3
    losses = [float((head(rows[150:]) - noisy[150:]).square().mean()) for head in (one, several)]
    assert losses[1] < losses[0]
    assert several.report()["columns"] == {"6": pytest.approx(1.0)}
    assert torch.equal(clone(weak).set_params(n_variants=3).fit(context)(rows), several(rows))
    assert torch.equal(TreesHead.from_state(several.state())(rows), several(rows))
    unwatched = clone(weak).set_params(n_variants=3, patience=None).fit(context)
    assert len(unwatched.members) == 1


def test_a_sample_of_a_task_has_the_same_rows_in_all_parts() -> None:
    numbers = torch.arange(50.0)[:, None]
    task = WeakTask(
        torch.arange(50), numbers, torch.rand(50), 1, SquaredError(), torch.arange(50, 90), numbers[:40] + 50
    )
    few = sample_task(replace(task, offsets=numbers * 2, val_offsets=None), 10, seed=3)
    assert len(few.rows) == len(set(few.rows.tolist())) == len(few.val_rows) == 10
    assert few.targets[:, 0].tolist() == few.rows.tolist()
    assert few.offsets[:, 0].tolist() == (2 * few.rows).tolist()
    assert few.val_targets[:, 0].tolist() == few.val_rows.tolist()
    assert few.val_offsets is None
    assert torch.equal(few.weights, task.weights[few.rows])
    assert sample_task(replace(task, val_rows=None, val_targets=None), 99, seed=0).rows.tolist() == list(
        range(50)
    )


# In the loop: every rule, several graphs, populations, searches, files.


@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_rule_boosts_trees_and_a_file_predicts_other_graphs(tmp_path, library: str, rule: Any) -> None:
    graph, y = two_blocks(120, n_classes=3)
    train, val, test = np.arange(50), np.arange(50, 80), np.arange(80, 120)
    model = GBGNNClassifier(learner=BoostedTrees(library=library), rule=rule, n_rounds=3, random_state=0)
    model.fit(train, y[train], graph=graph, validation=(val, y[val]))
    assert model.score(test, y[test]) > 0.9
    model.save(tmp_path / "m.gbgnn")
    loaded = gbgnn.load(tmp_path / "m.gbgnn")
    assert repr(loaded.learner) == repr(model.learner)
    other, other_y = two_blocks(90, n_classes=3)
    scores = [each.decision_function(np.arange(90), graph=other) for each in (model, loaded)]
    assert scores[0].tobytes() == scores[1].tobytes()
    assert (loaded.predict(np.arange(90), graph=other) == other_y).mean() > 0.8


def test_karate_and_a_block_model_end_to_end() -> None:
    for data in (datasets.load("karate"), datasets.csbm(n_nodes=200, n_features=8, seed=0)):
        train, test = np.arange(0, len(data.y), 2), np.arange(1, len(data.y), 2)
        first, again = (
            GBGNNClassifier(learner="trees", n_rounds=4, random_state=0).fit(
                train, data.y[train], graph=data.graph
            )
            for _ in range(2)
        )
        assert again.scores_.tobytes() == first.scores_.tobytes()
        assert first.score(test, data.y[test]) > 0.8


def minesweeper(side: int = 40, seed: int = 0) -> tuple[Graph, np.ndarray]:
    """A grid of cells, a fifth of them mines; half of the cells tell how many neighbours are."""
    random = np.random.default_rng(seed)
    place = np.arange(side * side)
    row, column = np.divmod(place, side)
    apart = np.maximum(abs(row[:, None] - row), abs(column[:, None] - column))
    adjacency = (apart == 1).astype(float)
    mines = (random.random(side * side) < 0.2).astype(int)
    counts = adjacency @ mines
    hidden = random.random(side * side) < 0.5
    features = np.eye(9)[counts.astype(int)] * ~hidden[:, None]
    return Graph(adjacency, np.column_stack([features, hidden])), mines


def test_rounds_on_wider_neighbourhoods_find_mines() -> None:
    graph, mines = minesweeper()
    order = np.random.default_rng(1).permutation(len(mines))
    train, val, test = np.split(order, [800, 1200])
    learner, scores = BoostedTrees(n_trees=30), {}
    for aggregation in ("identity", "lazy"):
        model = GBGNNClassifier(
            aggregation=aggregation, learner=learner, propagation="random_walk", metric="roc_auc", n_rounds=5
        )
        model.fit(train, mines[train], graph=graph, validation=(val, mines[val]))
        scores[aggregation] = model.model_.evaluate(test, mines[test])
    assert scores["identity"] < 0.6 < 0.75 < scores["lazy"]


def test_numbers_and_several_labels_are_targets_too() -> None:
    graph, _ = two_blocks(120)
    features = np.asarray(graph.features)
    train, test = np.arange(0, 120, 2), np.arange(1, 120, 2)
    labels = (features[:, :2] > 0).astype(int)
    model = GBGNNClassifier(learner=BoostedTrees(), task="multilabel", n_rounds=3, random_state=0)
    model.fit(train, labels[train], graph=graph)
    assert (model.predict(test) == labels[test]).mean() > 0.7
    numbers = features[:, :2] * 3 + 1
    problem = make_problem(graph, numbers, train, task=Regression())
    member = Member(as_part("aggregation", "lazy"), BoostedTrees(), FunctionalGradient(), 5, Seeds(0))
    (boosted,) = boost_many(problem, [member])
    told = np.corrcoef(boosted.scores[test, 0], numbers[test, 0])[0, 1]
    assert told > 0.8


def test_members_of_a_population_equal_themselves_alone() -> None:
    graph, y = two_blocks(80, n_classes=3)
    problem = make_problem(graph, y, np.arange(30), np.arange(30, 50))
    rule, aggregation = Samme(), as_part("aggregation", "injection")
    learners = [BoostedTrees(n_trees=5, learning_rate=rate) for rate in (0.1, 0.3, 1.0)]
    members = [Member(aggregation, each, rule, n_rounds=3, seeds=Seeds(i)) for i, each in enumerate(learners)]
    together = boost_many(problem, members)
    for member, own in zip(members, together, strict=True):
        (alone,) = boost_many(problem, [member])
        torch.testing.assert_close(own.scores, alone.scores, rtol=1e-9, atol=1e-10)
    models = [
        GBGNNClassifier(learner=each, rule=rule, n_rounds=3, random_state=i)
        for i, each in enumerate(learners)
    ]
    inputs = PopulationInputs.from_model(
        models[0], np.arange(30), y[:30], graph=graph, predict_nodes=np.arange(80)
    )
    for result, model in zip(train_population(inputs, models), models, strict=True):
        model.fit(np.arange(30), y[:30], graph=graph)
        assert result.best_round == model.best_round_


@pytest.mark.parametrize("population", [None, 3])
def test_a_search_over_trees(population: int | None) -> None:
    data = datasets.csbm(n_nodes=90, per_class=6, n_classes=3, n_features=4, n_val=40, seed=3)
    space = SearchSpace(
        {"rule": "samme_r", "learner": "trees", "n_rounds": 3, "learner__n_trees": 5},
        {
            "learner__learning_rate": Real(0.05, 0.5, log=True),
            "learner__max_leaves": Integer(2, 8),
            "learner__library": Choice(["sklearn", "lightgbm"]),
        },
    )
    result = tune(
        data.train,
        data.y[data.train],
        graph=data.graph,
        validation=(data.val, data.y[data.val]),
        space=space,
        n_trials=4,
        device="cpu",
        population=population,
    )
    assert result.counts == {"complete": 4, "pruned": 0, "failed": 0}
    assert isinstance(result.model.learner, BoostedTrees)
    assert result.model.score(data.val, data.y[data.val]) == result.best_value


def test_fine_tuning_says_that_trees_have_no_gradient() -> None:
    graph, y = two_blocks(40)
    model = GBGNNClassifier(learner="trees", fine_tune=FineTuner(), n_rounds=2)
    with pytest.raises(ParameterError, match="BoostedTrees|gradient"):
        model.fit(np.arange(20), y[:20], graph=graph)


ONE_OF = {"three": LABELS, "two": LABELS.clamp(max=1), "numbers": NUMBERS}


def fit_with_forest(targets: torch.Tensor, **settings: Any) -> TreesHead:
    """Few small trees, so that a forest has something to add."""
    learner = BoostedTrees(library="lightgbm", n_trees=3, max_leaves=2, **settings)
    return learner.fit(grouped_round(targets))


@pytest.mark.parametrize("targets", ONE_OF.values(), ids=ONE_OF)
def test_a_forest_is_averaged_with_the_boosted_trees(targets: torch.Tensor) -> None:
    task = grouped_round(targets).weak_task
    without, head = (fit_with_forest(targets, n_forest=n) for n in (0, 20))
    losses = [float(task.loss.mean(each(X)[1::2].double(), targets[1::2])) for each in (without, head)]
    assert losses[1] < losses[0]
    assert 0 < head.report()["forest"] <= 1
    assert "forest" not in without.report()
    restored = TreesHead.from_state(head.state())
    assert torch.equal(restored(X), head(X))
    assert restored.report() == head.report()
    trees, base = head.trees()
    n_columns = len(base)
    total = torch.tensor(np.tile(base, (60, 1)))
    for tree in trees:
        total[:, tree.column] += torch.tensor(tree.predict(X.float().numpy()))
    output = head(X.float()).double()
    torch.testing.assert_close(total, output[:, -n_columns:], rtol=1e-5, atol=1e-5)


def test_a_forest_needs_validation_nodes_and_does_not_build_on_scores() -> None:
    alone = learner_round(X, LABELS)
    heads = [BoostedTrees(n_trees=2, n_forest=n).fit(alone) for n in (0, 5)]
    assert torch.equal(heads[0](X), heads[1](X))
    scores = torch.randn(60, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    on_scores = grouped_round(LABELS, offsets=scores)
    assert "forest" not in BoostedTrees(n_trees=2, n_forest=5).fit(on_scores).report()
    on_numbers = grouped_round(NUMBERS, offsets=scores[:, :2])
    assert "forest" in BoostedTrees(n_trees=2, max_leaves=2, n_forest=20).fit(on_numbers).report()


def test_importances_of_a_forest_are_shares_of_what_the_first_member_gained() -> None:
    weak, context = BoostedTrees(library="lightgbm", n_trees=3), learner_round(X, NUMBERS)
    boosted = weak.fit(context).models
    forest = weak._grow(context, [3], Forest)[0].models
    own, other = (sum(model.importances() for model in models) for models in (boosted, forest))
    head = TreesHead([AveragedTrees(0.25, boosted), AveragedTrees(0.75, forest)], 2, 3)
    wanted = 0.25 * own + 0.75 * other * own.sum() / other.sum()
    np.testing.assert_allclose(head.importances(), wanted)


def test_a_state_of_several_kinds_names_each() -> None:
    weak, context = BoostedTrees(library="lightgbm", n_trees=3), learner_round(X, NUMBERS)
    members = [*weak._grow(context, [3]), *weak._grow(context, [1], Forest)]
    state = TreesHead([member._replace(weight=0.5) for member in members], 2, 3).state()
    assert bytes(state["library"].tolist()) == b"lightgbm,lightgbm,forest,forest"
    for forged in (b"lightgbm", b"forest", b"lightgbm,forest", b"forest,forest,lightgbm,lightgbm", b",", b""):
        name = torch.tensor(list(forged), dtype=torch.uint8)
        with pytest.raises(ModelFileError, match="its boosted trees cannot be read"):
            TreesHead.from_state(state | {"library": name})
