from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

import gbgnn
from gbgnn.cli import fit


def test_a_run_is_exported(run, fitted: Path) -> None:
    told = run("export", fitted, "--format", "onnx", "--out", "club_onnx").stderr
    model = gbgnn.load(fitted / "model.gbgnn")
    names = [f"round_{t + 1:02d}.onnx" for t in range(model.best_round_)]
    assert sorted(path.name for path in Path("club_onnx").iterdir()) == ["propagation.json", *names]
    assert f"{len(names) + 1} files written to club_onnx" in told
    said = json.loads(Path("club_onnx/propagation.json").read_text())
    assert [row["file"] for row in said["rounds"]] == names
    rows = np.eye(34, dtype=np.float32)
    (output,) = onnxruntime.InferenceSession(Path("club_onnx") / names[0]).run(None, {"X": rows})
    assert output.shape == (34, 1)


def test_trees_are_fitted_saved_predicted_and_exported(run) -> None:
    trees = ("--learner", "trees", "--n-trees", "5", "--library", "lightgbm", "--rounds", "3", "--seed", "0")
    run("fit", *run.tiny, *trees, "-q", "--out", "r")
    assert "trees" in run("inspect", "r").stdout
    run("predict", "r", "--dataset", "csbm", "--data-option", "n_nodes=80", "--out", "o.csv")
    assert len(Path("o.csv").read_text().splitlines()) == 81
    run("export", "r/model.gbgnn", "--out", "onnx")
    assert Path("onnx/round_01.onnx").exists()


def test_what_cannot_be_exported_is_said(run, fitted: Path) -> None:
    told = run("export", fitted, "--format", "pmml", "--out", "o", code=2).stderr
    assert "--format must be onnx; got 'pmml'." in " ".join(told.split())
    told = run("export", fitted, "--out", fitted, code=1).stderr
    assert "club is there already, and not an empty folder" in " ".join(told.split())
    told = run("export", "nowhere", "--out", "o", code=1).stderr
    assert "there is no run or model nowhere" in " ".join(told.split())


@pytest.mark.parametrize("library", ["sklearn", "lightgbm", "xgboost"])
def test_an_interrupted_fit_of_trees_goes_on_to_the_same_bytes(
    run, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trees = ("--learner", "trees", "--n-trees", "4", "--library", library, "--rounds", "4", "--seed", "0")
    run("fit", *run.tiny, *trees, "-q", "--out", "whole")

    class Stop(gbgnn.Callback):
        def on_round(self, report) -> None:
            if report.t == 2:
                raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(fit, "_checkpoints", lambda job: [Stop()])
        told = run("fit", *run.tiny, *trees, "--out", "r", code=130).stderr
    assert "after round 2; go on with: gbgnn fit --resume r" in told
    run("fit", "--resume", "r", "-q")
    whole, resumed = (gbgnn.load(f"{name}/model.gbgnn") for name in ("whole", "r"))
    assert resumed.scores_.tobytes() == whole.scores_.tobytes()
