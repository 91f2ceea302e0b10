from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import gbgnn
from gbgnn import cli

COMMANDS = [
    *("fit", "predict", "evaluate", "inspect", "export", "certify", "smoothing", "convert"),
    *("tune", "baseline", "reproduce", "compare", "datasets", "datasets info"),
]


def test_version(run) -> None:
    assert run("--version").stdout == f"gbgnn {gbgnn.__version__}\n"


def test_help_lists_every_command(run) -> None:
    text = run("--help").stdout
    assert all(command.split()[0] in text for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches_by_examples(run, command: str) -> None:
    text = run(*command.split(), "--help").stdout
    assert "Examples" in text
    assert 2 <= text.count("$ gbgnn ") <= 5


def test_unknown_command_and_option_are_usage_errors(run) -> None:
    assert "fitt" in run("fitt", code=2).stderr
    assert "--unit" in run("fit", "--unit", "3", code=2).stderr


def test_help_imports_nothing_heavy() -> None:
    # A bare package stands in for gbgnn itself, whose __init__ is the library's affair.
    code = f"""
import sys, types
package = types.ModuleType("gbgnn")
package.__path__ = [{str(Path(gbgnn.__file__).parent)!r}]
sys.modules["gbgnn"] = package
from gbgnn.cli import main
sys.argv = ["gbgnn", "fit", "--help"]
try:
    main()
finally:
    print([m for m in ("torch", "numpy", "sklearn") if m in sys.modules])
"""
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.splitlines()[-1] == "[]"


def test_without_typer_one_line_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "find_spec", lambda name: None)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 1
    assert capsys.readouterr().err == ('the gbgnn command needs typer and rich: pip install "gbgnn[cli]"\n')


def test_main_reads_the_arguments_of_the_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["gbgnn", "--version"])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"gbgnn {gbgnn.__version__}\n"


def test_module_is_the_command_and_a_closed_pipe_is_no_traceback() -> None:
    script = f"{sys.executable} -m gbgnn datasets --json | head -c 1"
    result = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "{"
    assert result.stderr == ""
