"""
Coming from LabelSpreading
==========================

scikit-learn's ``LabelSpreading`` takes a table, makes a graph of its rows, and lets known labels flow
along it. gbgnn takes the same problem, and learns from columns as well as from neighbours. This page
sets the calls side by side.
"""

# %%
# The same data
# -------------
# ``LabelSpreading`` marks rows without a label by -1. gbgnn is told which rows have one: their numbers,
# and their labels.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.semi_supervised import LabelSpreading

from gbgnn import GBGNNClassifier, Graph, datasets

X, truth = load_digits(return_X_y=True)
split = datasets.random_split(truth, per_class=5, n_val=0, n_test=None, seed=1)
labelled, others = split.train, split.test
print(f"{len(labelled)} labelled images, {len(others)} others")

# %%
# scikit-learn
# ------------
y = np.full(len(truth), -1)
y[labelled] = truth[labelled]
spreading = LabelSpreading(kernel="knn", n_neighbors=8).fit(X, y)
print(f"LabelSpreading: {np.mean(spreading.transduction_[others] == truth[others]):.1%}")

# %%
# gbgnn
# -----
# ``Graph.from_neighbors`` makes the graph, once; any number of models can then be fitted on it,
# cross-validated and searched, because the rows that scikit-learn slices are numbers of nodes.
graph = Graph.from_neighbors(X, k=8)
model = GBGNNClassifier(random_state=0).fit(labelled, truth[labelled], graph=graph)
print(f"GBGNNClassifier: {model.score(others, truth[others]):.1%}")

# %%
# What corresponds to what
# ------------------------
# ================================  ==========================================================
# LabelSpreading                    GBGNNClassifier
# ================================  ==========================================================
# ``fit(X, y)`` with ``y == -1``    ``fit(nodes, y[nodes], graph=graph)``
# ``kernel="knn", n_neighbors=8``   ``Graph.from_neighbors(X, k=8)``, or links of your own
# ``transduction_``                 ``fit_predict(...)``, or ``predict(range(len(X)))``
# ``label_distributions_``          ``predict_proba(range(len(X)))``
# ``predict(new_rows)``             ``predict(nodes, graph=graph_with_new_rows)``
# ``alpha``                         learned: rounds of larger depth are weighed by what they add
# ================================  ==========================================================
#
# Labels alone, without columns, can be spread in gbgnn as well: ``learner=PropagatedResiduals()``, in
# the first round, is label propagation, and a part like any other.

# %%
# Are probabilities to be trusted?
# --------------------------------
# Sorted by how sure the model is: of the nodes it is surest of, how many are right?
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
beliefs = {
    "GBGNNClassifier": (model.predict_proba(others), model.predict(others)),
    "LabelSpreading": (spreading.label_distributions_[others], spreading.transduction_[others]),
}
for name, (probabilities, said) in beliefs.items():
    surest = np.argsort(-probabilities.max(axis=1), kind="stable")
    right = np.cumsum((said == truth[others])[surest]) / np.arange(1, len(others) + 1)
    axes.plot(100 * np.linspace(0, 1, len(others)), 100 * right, label=name)
axes.set(xlabel="share of images read, the surest first, %", ylabel="accuracy on these, %", ylim=(88, 100.5))
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
plt.show()
