"""From two CSV files to predictions under the user's own node names."""

import tempfile
from pathlib import Path

from gbgnn import GBGNNClassifier, NodeSplit, datasets

EDGES = """source,target
ann,bob
bob,cat
cat,ann
dan,eve
eve,fay
fay,dan
cat,dan
"""
NODES = """id,label,age,posts
ann,tea,31,4
bob,,35,5
cat,,29,3
dan,coffee,52,40
eve,,58,38
fay,,49,45
"""

with tempfile.TemporaryDirectory() as folder:
    edges, nodes = Path(folder, "edges.csv"), Path(folder, "nodes.csv")
    edges.write_text(EDGES)
    nodes.write_text(NODES)
    # Two labelled nodes, both for training; the others have no label yet.
    data = datasets.read_tables(edges, nodes, split=NodeSplit([0, 3]))

model = GBGNNClassifier(n_rounds=5, random_state=0)
everyone = model.fit_predict(data.train, data.y[data.train], graph=data.graph)
for name, drink in zip(data.graph.node_ids, everyone, strict=True):
    print(f"{name}: {drink}")
