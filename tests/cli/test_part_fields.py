from __future__ import annotations

import ast
import dataclasses
import subprocess
import sys

import pytest

from gbgnn.cli.part_fields import read_class, read_family, read_fine_tuner, read_parameters
from gbgnn.errors import GBGNNWarning
from gbgnn.finetuning import FineTuner
from gbgnn.registry import FAMILIES, PARAMETERS


@pytest.mark.parametrize("family", PARAMETERS)
def test_what_is_read_is_what_the_classes_have(family: str) -> None:
    found = read_family(family)
    assert list(found) == list(FAMILIES[family])
    for name, kind in FAMILIES[family].items():
        real = {field.name: field for field in dataclasses.fields(kind)}
        assert [field.name for field in found[name]] == list(real)
        for field in found[name]:
            assert field.annotation == real[field.name].type
            assert ast.literal_eval(field.default or "") == real[field.name].default
            assert field.meaning, f"{kind.__name__}.{field.name} is not in the docstring"


def test_fine_tuning_is_read_too() -> None:
    assert [field.name for field in read_fine_tuner()] == [f.name for f in dataclasses.fields(FineTuner)]


def test_reading_imports_nothing_heavy() -> None:
    code = (
        "import sys; from gbgnn.cli.part_fields import read_family; read_family('learner'); "
        "assert not {'torch', 'numpy', 'sklearn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_source_and_class_say_the_same() -> None:
    for name, kind in FAMILIES["learner"].items():
        from_class = [dataclasses.replace(field, is_plugin=False) for field in read_class(kind)]
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

    monkeypatch.setattr("gbgnn.cli.part_fields.entry_points", lambda group: [Broken()])
    with pytest.warns(GBGNNWarning, match=r"learner 'gate' \(nowhere:Gate\) cannot be loaded: no module"):
        assert "gate" not in read_family("learner")
