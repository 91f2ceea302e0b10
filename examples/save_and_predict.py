"""Save a model as one file, load it elsewhere, and apply it to a graph it has never seen."""

import tempfile
from pathlib import Path

import gbgnn
from gbgnn import GBGNNClassifier, datasets

data = datasets.csbm(n_nodes=2000, n_classes=2, seed=0)
model = GBGNNClassifier(aggregation="kta", n_rounds=5, random_state=0)
model.fit(data.train, data.y[data.train], graph=data.graph)

half = range(1000)  # as a graph of its own: the same kind of nodes, fewer edges
part = gbgnn.Graph(data.graph.adjacency[:1000][:, :1000], data.graph.features[:1000])
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "model.gbgnn")
    model.save(path)
    loaded = gbgnn.load(path)
print(f"whole graph, accuracy {loaded.score(data.test, data.y[data.test]):.3f}")
print(f"half of it, as another graph, accuracy {loaded.score(half, data.y[:1000], graph=part):.3f}")
