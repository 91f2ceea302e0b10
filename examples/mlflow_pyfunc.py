"""A model as an MLflow pyfunc: ids in, a frame with labels and probabilities out.

MLflow is not part of gbgnn: ``pip install mlflow pandas "gbgnn[save]"``.
"""

from __future__ import annotations

import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gbgnn
from gbgnn import GBGNNClassifier, datasets


def log_model(model: GBGNNClassifier, data: datasets.Dataset, folder: Path) -> str:
    """Write a fitted model with the graph it predicts, and return the address of the MLflow model."""
    import mlflow

    class NodePredictions(mlflow.pyfunc.PythonModel):
        """Takes a frame with a column ``node`` of the user's ids."""

        def load_context(self, context: Any) -> None:
            self.model = gbgnn.load(context.artifacts["model"])
            self.graph = datasets.load_dataset(context.artifacts["graph"]).graph
            self.row_of = {name: row for row, name in enumerate(self.graph.node_ids.tolist())}

        def predict(self, context: Any, model_input: Any, params: Any = None) -> Any:
            rows = [self.row_of[name] for name in model_input["node"]]
            return gbgnn.predictions_frame(self.model, rows, graph=self.graph)

    model.save(folder / "model.gbgnn")
    graph = datasets.save_dataset(data, folder / "graph.gbgraph")
    with mlflow.start_run():
        mlflow.log_metric("test_accuracy", model.score(data.test, data.y[data.test]))
        artifacts = {"model": str(folder / "model.gbgnn"), "graph": str(graph)}
        logged = mlflow.pyfunc.log_model("nodes", python_model=NodePredictions(), artifacts=artifacts)
    return str(logged.model_uri)


def main() -> None:
    """Log a model of the karate club, load it back through MLflow and ask it about two members."""
    if find_spec("mlflow") is None:
        print('this example needs MLflow: pip install mlflow pandas "gbgnn[save]"')
        return
    import mlflow
    import pandas as pd

    data = datasets.load("karate", split="stratified")
    model = GBGNNClassifier(n_rounds=5, random_state=0).fit(data.train, data.y[data.train], graph=data.graph)
    with tempfile.TemporaryDirectory() as folder:
        mlflow.set_tracking_uri(f"sqlite:///{Path(folder, 'mlflow.db').as_posix()}")
        mlflow.create_experiment("karate", Path(folder, "artifacts").as_uri())
        mlflow.set_experiment("karate")
        served = mlflow.pyfunc.load_model(log_model(model, data, Path(folder)))
        print(served.predict(pd.DataFrame({"node": [0, 33]})))


if __name__ == "__main__":
    main()
