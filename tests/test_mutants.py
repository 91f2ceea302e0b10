"""The mutation run itself, ``make mutants``: that what it plants is still there, and that it changes code."""

from __future__ import annotations

import ast
import importlib
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def mutants(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return importlib.import_module("mutants")


def test_every_module_and_all_of_its_tests_are_there(mutants: ModuleType) -> None:
    for module, tests in mutants.MODULES.items():
        assert mutants.path_of(module).is_file()
        for test in tests:
            assert (mutants.ROOT / "tests" / f"{test}.py").is_file()


def test_every_slip_can_be_planted_and_every_explanation_is_of_a_mutant(mutants: ModuleType) -> None:
    notes = tomllib.loads(mutants.NOTES.read_text())
    planted = list(mutants.read_planted(notes))
    assert len(planted) == len(notes["planted"]) >= 20
    for each in planted:
        assert each.module in mutants.MODULES
        ast.parse(each.source)
    known = {mutant.key for module in mutants.MODULES for mutant in mutants.find_mutants(module)}
    assert set(notes["equivalent"]) <= known


def test_a_mutant_is_the_module_with_one_change(mutants: ModuleType) -> None:
    module = "theory/holdout"
    text = mutants.path_of(module).read_text()
    found = list(mutants.find_mutants(module))
    assert len(found) > 50
    for mutant in found:
        assert mutant.source != text
        assert len(mutant.source.splitlines()) <= len(text.splitlines())
        compile(mutant.source, module, "exec")
    (left_out,) = (each for each in found if (each.was, each.now) == ("np.log(n_drawn - j)", "n_drawn - j"))
    assert left_out.within in text
    assert left_out.key == f"{module}: np.log(n_drawn - j) -> n_drawn - j in {left_out.within}"


def test_samples_are_the_same_every_time(mutants: ModuleType) -> None:
    first, again = (mutants.choose(3, 0, ["theory/draws"]) for _ in range(2))
    assert first == again
    assert mutants.choose(3, 1, ["theory/draws"]) != first
