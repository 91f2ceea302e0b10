from __future__ import annotations

import subprocess
import sys

import pytest

import gbgnn
import gbgnn.__main__ as module
from gbgnn.cli import main


def test_running_the_package_is_running_the_command() -> None:
    assert module.main is main
    done = subprocess.run(
        [sys.executable, "-m", "gbgnn", "--version"], capture_output=True, text=True, check=True
    )
    assert gbgnn.__version__ in done.stdout


def test_ctrl_c_before_the_command_begins_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("gbgnn.cli.app.app", interrupt)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "interrupted.\n"
