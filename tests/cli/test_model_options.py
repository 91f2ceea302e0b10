from __future__ import annotations

import ast
import dataclasses
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from gbgnn import Lazy, registry
from gbgnn.cli import model_options
from gbgnn.cli.model_options import _read_source, make_options, read_class, read_family, read_parameters
from gbgnn.errors import GBGNNWarning
from gbgnn.finetuning import FineTuner
from gbgnn.registry import FAMILIES, PARAMETERS

FLAGS = {
    *("aggregation --aggregation", "aggregation__mixing --mixing", "aggregation__degree --kta-degree"),
    *("aggregation__solver --kta-solver", "aggregation__optimizer --kta-optimizer"),
    *("aggregation__learning_rate --kta-learning-rate", "aggregation__epochs --kta-epochs"),
    *("aggregation__rescale --kta-rescale", "aggregation__max_norm --mixing-norm"),
    *("propagation --propagation", "propagation__self_loops --self-loops", "feature_norm --feature-norm"),
    *("learner --learner", "learner__hidden_layers --hidden-layers", "learner__units --units"),
    *("learner__max_norm --max-norm", "learner__bias --bias", "learner__alpha --alpha"),
    *("learner__beta --beta", "learner__max_epochs --max-epochs", "learner__dropout --dropout"),
    *("learner__optimizer --optimizer", "learner__learning_rate --lr", "learner__momentum --momentum"),
    *("learner__weight_decay --weight-decay", "learner__epochs --epochs", "learner__patience --patience"),
    *("learner__batch_size --batch-size", "learner__standardize --standardize", "learner__basis --basis"),
    *("learner__estimator --estimator", "learner__estimator_params --estimator-param", "rule --rule"),
    *("learning_rate --learning-rate", "rule__loss --loss", "rule__target --rule-target"),
    *("rule__min_cosine --min-cosine", "rule__retries --retries", "rule__on_failure --on-failure"),
    *("rule__error_floor --error-floor", "rule__proba_floor --proba-floor", "n_rounds --rounds"),
    *("metric --metric", "select --select", "class_weight --class-weight", "device --device"),
    *("validation_fraction --validation-fraction", "n_iter_no_change --n-iter-no-change"),
    *("fine_tune --fine-tune", "fine_tune__epochs --fine-tune-epochs", "fine_tune__keep --keep"),
    *("fine_tune__optimizer --fine-tune-optimizer", "fine_tune__learning_rate --fine-tune-lr"),
    *("fine_tune__momentum --fine-tune-momentum", "fine_tune__weight_decay --fine-tune-weight-decay"),
    *("fine_tune__batch_size --fine-tune-batch-size", "fine_tune__patience --fine-tune-patience"),
    *(
        "fine_tune__moves --fine-tune-moves",
        "fine_tune__memory_limit --fine-tune-memory-limit",
        "dtype --dtype",
    ),
    *("random_state --seed", "keep_learners --keep-learners", "memory_limit --memory-limit"),
}


def test_flags_people_know_are_still_there() -> None:
    known = {f"{option.name} {option.opts[0]}" for option in make_options()}
    assert known >= FLAGS


def test_no_flag_is_another_settings_too() -> None:
    flags = [flag for option in make_options() for flag in (*option.opts, *option.secondary_opts)]
    assert len(flags) == len(set(flags))


def test_every_setting_of_every_part_has_an_option() -> None:
    names = {option.name for option in make_options()}
    for family in PARAMETERS:
        for kind in FAMILIES[family].values():
            own = {f"{family}__{name}" for name in kind().get_params(deep=False)}
            # One number has one flag, and a matrix and a learner in another have none.
            without = {"rule__learning_rate", "propagation__matrix", "learner__first", "learner__then"}
            without |= {"learner__inner", "learner__odd", "learner__even", "learner__layer_options"}
            without |= {"learner__one", "learner__other"}
            assert own - names <= without


def test_help_says_whose_setting_it_is_what_it_does_and_its_defaults(run) -> None:
    text = " ".join(run("fit", "--help").stdout.replace("│", " ").split())
    owners = "(mlp, constrained, wide, graph_network, convolutions, consistent)"
    assert f"{owners} Width of each hidden layer. Default: 64; wide 4096;" in text
    assert "(injection, lazy) Share of the aggregated features, in [0, 1]" in text
    assert "e is kept within [error_floor, 1 - error_floor]" in text
    assert "(mlp, consistent) See --optimizer." in text


@dataclass(kw_only=True, eq=False, repr=False)
class Gate(Lazy):
    """Lazy, with a gate.

    Parameters
    ----------
    sharpness
        How sharp the gate is.
    shape
        ``"round"`` or ``"square"``.
    is_open
        Whether it begins open.
    hinges
        What it hangs on.
    """

    sharpness: float | None = 0.5
    shape: Literal["round", "square"] = "round"
    is_open: bool = True
    hinges: Any = None


class _Point:
    name, value = "gate", "elsewhere:Gate"

    def load(self) -> type[Gate]:
        return Gate


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch):
    def points(group: str) -> list[_Point]:
        return [_Point()] if group == "gbgnn.aggregation" else []

    monkeypatch.setattr(model_options, "entry_points", points)
    monkeypatch.setattr(registry, "entry_points", points)
    make_options.cache_clear()
    yield
    make_options.cache_clear()


@pytest.mark.usefixtures("gate")
def test_a_plug_in_has_options_without_another_line(run) -> None:
    text = " ".join(run("fit", "--help").stdout.replace("│", " ").split())
    assert "nonlinear, identity or gate." in text
    assert "--aggregation-sharpness <float> (gate) How sharp the gate is. Default: 0.5." in text
    assert "--aggregation-hinges" not in text
    assert "(injection, lazy, gate) Share" in text
    run(
        *("fit", "karate", *run.quick, "-q", "--aggregation", "gate", "--aggregation-sharpness", "0.25"),
        *("--no-aggregation-is-open", "--aggregation-shape", "square", "--mixing", "0.75", "--out", "r"),
    )
    table = tomllib.loads(Path("r/config.toml").read_text())["aggregation"]
    assert table == {
        "name": "gate",
        "mixing": 0.75,
        "sharpness": 0.25,
        "shape": "square",
        "is_open": False,
    }
    refused = run("fit", "karate", "--aggregation-sharpness", "1", "--out", "s", code=2).stderr
    assert (
        "--aggregation-sharpness belongs to aggregation gate; the aggregation of this run is adj" in refused
    )


@pytest.mark.parametrize("family", PARAMETERS)
def test_what_is_read_is_what_the_classes_have(family: str) -> None:
    found = read_family(family)
    assert list(found) == list(FAMILIES[family])
    for name, kind in FAMILIES[family].items():
        real = {field.name: field for field in dataclasses.fields(kind)}
        assert [field.name for field in found[name]] == list(real)
        for field in found[name]:
            assert field.annotation == real[field.name].type
            if real[field.name].default is not dataclasses.MISSING:
                assert ast.literal_eval(field.default or "") == real[field.name].default
            assert field.meaning, f"{kind.__name__}.{field.name} is not in the docstring"


def test_fine_tuning_is_read_too() -> None:
    assert [field.name for field in _read_source("FineTuner")] == [
        f.name for f in dataclasses.fields(FineTuner)
    ]


def test_reading_imports_nothing_heavy() -> None:
    code = (
        "import sys; from gbgnn.cli.model_options import read_family; read_family('learner'); "
        "assert not {'torch', 'numpy', 'sklearn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_source_and_class_say_the_same() -> None:
    for name, kind in FAMILIES["learner"].items():
        from_class = [field._replace(is_plugin=False) for field in read_class(kind)]
        assert [(f.name, f.annotation, f.meaning, f.beside) for f in from_class] == [
            (f.name, f.annotation, f.meaning, f.beside) for f in read_family("learner")[name]
        ]


def test_classes_that_are_no_dataclasses_are_read_too() -> None:
    class Plain:
        def __init__(self, units: int, *, rate: float | None = 0.5) -> None: ...

    assert [(f.name, f.annotation, f.default) for f in read_class(Plain)] == [
        ("units", "int", None),
        ("rate", "float | None", "0.5"),
    ]


MARKED = """Part.

Parameters
----------
rho : float
    The :math:`\\tilde{C}`, see
    :class:`~a.b.C`.

Notes
-----
no
"""


def test_marks_of_the_documentation_are_taken_off() -> None:
    assert read_parameters(MARKED) == {"rho": ("The C, see C.", None)}
    assert read_parameters("Nothing.") == {}


def test_a_plug_in_that_cannot_be_loaded_is_named_and_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        name, value = "gate", "nowhere:Gate"

        def load(self) -> None:
            raise ImportError("no module nowhere")

    monkeypatch.setattr("gbgnn.cli.model_options.entry_points", lambda group: [Broken()])
    with pytest.warns(GBGNNWarning, match=r"learner 'gate' \(nowhere:Gate\) cannot be loaded: no module"):
        assert "gate" not in read_family("learner")
