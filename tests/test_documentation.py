"""The reference has every public name, and the pages of the site are the repository's."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest
from docutils import nodes

ROOT = Path(__file__).parent.parent
PUBLIC = [
    "gbgnn",
    *(
        f"gbgnn.{name}"
        for name in ("aggregation", "boosting", "datasets", "features", "finetuning", "learners")
    ),
    *(f"gbgnn.{name}" for name in ("losses", "propagation", "search", "tables", "tasks", "theory")),
]


def documented() -> list[str]:
    text = "".join(page.read_text() for page in (ROOT / "docs" / "api").glob("*.rst"))
    blocks = re.findall(r"\.\. documented::\n\n((?: {3}\S+\n)+)", text)
    return [name for block in blocks for name in block.split()]


def resolve(name: str) -> object:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def test_no_name_is_documented_twice() -> None:
    names = documented()
    assert len(names) == len(set(names)) > 150
    entries = [resolve(name) for name in names]
    assert len(entries) == len({id(entry) for entry in entries})


@pytest.mark.parametrize("package", PUBLIC)
def test_every_public_class_and_function_is_in_the_reference(package: str) -> None:
    module = import_module(package)
    entries = {id(resolve(name)) for name in documented()}
    public = [getattr(module, name) for name in module.__all__]
    missing = [
        f"{package}.{thing.__name__}"
        for thing in public
        if (inspect.isclass(thing) or inspect.isfunction(thing)) and id(thing) not in entries
    ]
    assert not missing, f"docs/api/*.rst do not list {', '.join(missing)}"


def test_every_error_is_in_the_reference() -> None:
    errors = vars(import_module("gbgnn.errors"))
    kinds = {
        name for name, kind in errors.items() if inspect.isclass(kind) and kind.__module__ == "gbgnn.errors"
    }
    assert kinds <= {name.rpartition(".")[2] for name in documented()}


@pytest.fixture(scope="module")
def mathml() -> ModuleType:
    pytest.importorskip("sphinx")
    spec = spec_from_file_location("mathml", ROOT / "docs" / "site" / "extensions" / "mathml.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_formulas_become_mathml(mathml: ModuleType) -> None:
    formula = nodes.math("", r"x_1, \dots, x_n")
    drawn = mathml.to_mathml(formula, block=False)
    assert drawn.startswith("<math")
    assert "…" in drawn
    assert 'display="block"' in mathml.to_mathml(nodes.math_block("", r"a &= b \\ c &= d"), block=True)


def test_a_formula_that_cannot_be_drawn_is_a_warning_and_stays_text(
    mathml: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    drawn = mathml.to_mathml(nodes.math("", r"a < \nonsense"), block=False)
    assert drawn == r"<code>a &lt; \nonsense</code>"
    assert r"\nonsense" in caplog.text


def test_the_site_asks_for_nothing_from_elsewhere() -> None:
    settings = (ROOT / "docs" / "conf.py").read_text()
    for extension in ("intersphinx", "mathjax"):
        assert extension not in settings
    for sheet in (ROOT / "docs" / "site").rglob("*.[ch][st][sm]*"):
        assert "://" not in sheet.read_text(), f"{sheet.name} names an address"
