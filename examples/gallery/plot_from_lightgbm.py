"""
Coming from LightGBM
====================

Whoever has a table reaches for boosted trees, and rightly so. When rows are linked, there are three
ways on: hand LightGBM columns made of the graph, hand gbgnn the graph, or hand gbgnn both. This page
does all three on one table.
"""

# %%
# A table, and links that matter
# ------------------------------
# Accounts of a shop: what was spent, how often, from how many addresses. A fraud uses many accounts,
# which are linked because they share a card. The table is made here.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import scipy.sparse as sp
from lightgbm import LGBMClassifier
from sklearn.metrics import average_precision_score

from gbgnn import GBGNNClassifier, Graph, GraphFeatures

rng = np.random.default_rng(0)
N = 3000
ring = np.where(rng.random(N) < 0.12, rng.integers(0, 60, N), -1)  # which ring of fraud, if any
bad = ring >= 0
table = pd.DataFrame(
    {
        "spent": rng.gamma(2, 40, N) + 30 * bad * rng.random(N),
        "orders": rng.poisson(4 + 1.5 * bad),
        "addresses": 1 + rng.poisson(0.4 + 0.5 * bad),
        "country": rng.choice(["NO", "IT", "PT"], N),
    }
)
ends = rng.integers(0, N, (2, 2 * N))  # families share cards too: links by chance
same_ring = [rng.choice(np.flatnonzero(ring == ring[i]), 2) for i in np.flatnonzero(bad)]
ends = np.hstack([ends, np.vstack([np.repeat(np.flatnonzero(bad), 2), np.concatenate(same_ring)])])
links = sp.coo_array((np.ones(ends.shape[1]), tuple(ends)), shape=(N, N)).tocsr()
links.setdiag(0)
graph = Graph(links + links.T, table)
y = bad.astype(int)
print(graph, f"{y.mean():.1%} are frauds")

nodes = rng.permutation(N)
train, val, test = (np.sort(part) for part in np.split(nodes, [600, 900]))


def judge(proba: np.ndarray) -> float:
    """Return the average precision on the test nodes: how many of those ranked first are frauds."""
    return float(average_precision_score(y[test], proba))


# %%
# LightGBM on the table
# ---------------------
found = {}
X = table.assign(country=table["country"].astype("category"))
trees = LGBMClassifier(n_estimators=200, learning_rate=0.05, num_leaves=8, verbose=-1, random_state=0)
trees.fit(X.iloc[train], y[train])
found["LightGBM, own columns"] = judge(trees.predict_proba(X.iloc[test])[:, 1])

# %%
# LightGBM on columns made of the graph
# -------------------------------------
# :class:`~gbgnn.GraphFeatures` is a transformer of scikit-learn's kind: node ids in, a table out, with
# the mean of the neighbours' columns, degrees, and so on, under names that can be read.
made = GraphFeatures(hops=2).fit(train, graph=graph)
wide = pd.DataFrame(made.transform(range(N)), columns=made.get_feature_names_out())
print(f"{wide.shape[1]} columns, among them", ", ".join(wide.columns[6:9]))
trees.fit(wide.iloc[train], y[train])
found["LightGBM, GraphFeatures"] = judge(trees.predict_proba(wide.iloc[test])[:, 1])

# %%
# gbgnn
# -----
# The default grows LightGBM's trees on the columns of an account, of its neighbours, and on what is
# known of labelled accounts nearby, and goes on with a graph network where that helps. Validation nodes
# say when to stop.


def boost(graph: Graph) -> float:
    model = GBGNNClassifier(random_state=0)
    model.fit(train, y[train], graph=graph, validation=(val, y[val]))
    return judge(model.predict_proba(test)[:, 1])


found["gbgnn"] = boost(graph)

# %%
# That is not the whole truth about these accounts: rings are dense, so that the number of links and of
# triangles tells as much as any neighbour. ``GraphFeatures`` has columns for these, and gbgnn takes
# them like any others.
shape = GraphFeatures(hops=0).fit(train, graph=graph)
columns = pd.DataFrame(shape.transform(range(N)), columns=shape.get_feature_names_out())
found["gbgnn, GraphFeatures"] = boost(Graph(graph.adjacency, columns))
for name, precision in found.items():
    print(f"{name:25} {precision:.3f}")

# %%
# What a table alone says is little; the links say the rest, and how they lie says more than who is at
# their ends. For settings of LightGBM's own, give ``BoostedTrees`` as the learner: its page in the
# reference says which it takes.
figure, axes = plt.subplots(figsize=(7, 2.8), layout="constrained")
colours = ["#2563eb" if name.startswith("gbgnn") else "#9ca3af" for name in found]
axes.barh(list(found), list(found.values()), color=colours)
axes.invert_yaxis()
axes.axvline(y[test].mean(), color="#dc2626", linestyle=":", linewidth=1)
axes.set(xlabel="average precision on test accounts (dotted: by chance)", xlim=(0, 1))
axes.spines[["top", "right"]].set_visible(False)
plt.show()
