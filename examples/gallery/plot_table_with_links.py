"""
A table with links
==================

A phone company knows its customers (a table) and who calls whom (another), and would like to know who
is about to leave. Both tables go in as they are: numbers, categories, dates and gaps.
"""

# %%
# Two tables
# ----------
# They are made here, so that we know what is true of them: whoever pays much for an old contract tends
# to leave, and so does whoever's friends left.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.metrics import roc_auc_score

from gbgnn import GBGNNClassifier, Graph, NodeSplit

N = 1500
rng = np.random.default_rng(0)
people = pd.DataFrame(
    {
        "name": [f"customer {i}" for i in range(N)],
        "age": rng.integers(18, 80, N).astype(float),
        "plan": rng.choice(["basic", "family", "premium"], N, p=[0.5, 0.3, 0.2]),
        "monthly bill": rng.gamma(4, 8, N).round(2),
        "since": pd.Timestamp("2018-01-01") + pd.to_timedelta(rng.integers(0, 2000, N), unit="D"),
    }
)
people.loc[rng.random(N) < 0.1, "age"] = np.nan  # not everybody tells

# Friends live in circles of about ten, and call each other more than anybody else.
circle = rng.integers(0, N // 10, N)
caller = rng.integers(0, N, 8 * N)
same = np.array([rng.choice(np.flatnonzero(circle == circle[i])) for i in caller])
callee = np.where(rng.random(len(caller)) < 0.85, same, rng.integers(0, N, len(caller)))
calls = pd.DataFrame({"source": people["name"][caller].values, "target": people["name"][callee].values})
calls = calls[caller != callee]

years = (pd.Timestamp("2024-01-01") - people["since"]).dt.days / 365
mood = rng.normal(0, 3, N // 10)  # of a circle of friends: nobody has a column for it
leaning = (
    0.1 * (people["monthly bill"] - 32) + 0.6 * (years - 3) + mood[circle] - 2 * (people["plan"] == "premium")
)
people["left"] = np.where(rng.random(N) < 1 / (1 + np.exp(-leaning)), "yes", "no")
print(people.head(4).to_string(index=False))

# %%
# One graph
# ---------
# Rows of the first table are the nodes, rows of the second the links between them. ``exclude`` keeps
# what is to be predicted out of the features.
graph = Graph.from_tables(people, calls, exclude=["left"])
print(graph)
print(graph.table)

# %%
# Fit --- Of 400 customers it is known whether they left; another 200 choose how long to train. Nothing
# else has to be said: narrow tables with so many labels get boosted trees that see a customer's own
# columns, those of friends, and who of the friends is known to have left.
nodes = rng.permutation(N)
split = NodeSplit(np.sort(nodes[:400]), np.sort(nodes[400:600]), np.sort(nodes[600:]))
y = people["left"].to_numpy()


def judge(graph: Graph) -> tuple[GBGNNClassifier, float]:
    """Return a fitted model, and how well it ranks the customers it has not been told of."""
    model = GBGNNClassifier(random_state=0)
    model.fit(split.train, y[split.train], graph=graph, validation=(split.val, y[split.val]))
    leaves = model.predict_proba(split.test)[:, 1]
    return model, float(roc_auc_score(y[split.test] == "yes", leaves))


model, with_links = judge(graph)
_, without_links = judge(Graph(0 * graph.adjacency, graph.table))
print(f"AUC with the links {with_links:.3f}, with the table alone {without_links:.3f}")

# %%
# What mattered
# -------------
# Importances come under the names of the table's own columns, beside what was learned from the links.
importances = model.column_importances()
largest = sorted(importances, key=importances.__getitem__)[-10:]

figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
axes.barh(largest, [100 * importances[name] for name in largest], color="#2563eb")
axes.set_xlabel("share of what predictions owe to a column, %")
axes.spines[["top", "right"]].set_visible(False)
plt.show()
