"""
Few labels
==========

1,797 images of digits are the nodes of a graph, each joined to the eight that look most like it.
Somebody has labelled one image of each digit, or two, or ten: how many of the others are then read
correctly?

Beside gbgnn stand a logistic regression, which sees the pixels of the labelled images and no graph, and
scikit-learn's label spreading, which sees the graph that it makes of all images.
"""

# %%
# The data
# --------
# ``datasets.load("digits")`` needs nothing from outside. ``split="random"`` draws so many labels of each
# class; no validation nodes are set aside, so that every label that there is can train.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import LabelSpreading

from gbgnn import GBGNNClassifier, datasets


def draw(per_class: int, seed: int) -> datasets.Dataset:
    """Return the digits with so many labels of each."""
    return datasets.load("digits", split="random", per_class=per_class, n_val=0, n_test=None, seed=seed)


print(draw(per_class=5, seed=0))

# %%
# Three ways to read the rest
# ---------------------------
# gbgnn is handed the ids of labelled nodes and the graph; the others get their tables of pixels as they
# want them.


def boosted(data: datasets.Dataset) -> float:
    model = GBGNNClassifier(random_state=0).fit(data.train, data.y[data.train], graph=data.graph)
    return model.score(data.test, data.y[data.test])


def without_graph(data: datasets.Dataset) -> float:
    pixels = np.asarray(data.graph.features)
    model = LogisticRegression(max_iter=1000).fit(pixels[data.train], data.y[data.train])
    return model.score(pixels[data.test], data.y[data.test])


def spread(data: datasets.Dataset) -> float:
    known = np.full(len(data.y), -1)
    known[data.train] = data.y[data.train]
    model = LabelSpreading(kernel="knn", n_neighbors=8).fit(np.asarray(data.graph.features), known)
    return float(np.mean(model.transduction_[data.test] == data.y[data.test]))


systems = {"gbgnn": boosted, "label spreading": spread, "logistic regression": without_graph}
sizes = [1, 2, 3, 5, 10]
accuracy = {name: np.zeros((len(sizes), 5)) for name in systems}
for row, per_class in enumerate(sizes):
    for seed in range(5):
        data = draw(per_class, seed)
        for name, read in systems.items():
            accuracy[name][row, seed] = read(data)

for name, found in accuracy.items():
    print(f"{name:20}", *(f"{share:.1%}" for share in found.mean(axis=1)))

# %%
# Five draws of the labels each; bands reach from the worst draw to the best. The fewer labels there
# are, the more the graph is worth; how many it spares is read from left to right: two labels of each
# digit with the graph do what five do without.
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for name, found in accuracy.items():
    (line,) = axes.plot(sizes, 100 * found.mean(axis=1), marker="o", label=name)
    worst, best = 100 * found.min(axis=1), 100 * found.max(axis=1)
    axes.fill_between(sizes, worst, best, color=line.get_color(), alpha=0.15)
axes.set(xscale="log", xlabel="labels per digit", ylabel="accuracy on all other images, %")
axes.set_xticks(sizes, [str(size) for size in sizes])
axes.minorticks_off()
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# What the model is unsure of
# ---------------------------
# Probabilities say which images to look at next. These are the eight that the model, given five labels of
# each digit, is least sure of; above each is what it says, and the truth in brackets.
data = draw(per_class=5, seed=0)
model = GBGNNClassifier(random_state=0).fit(data.train, data.y[data.train], graph=data.graph)
sureness = model.predict_proba(data.test).max(axis=1)
unsure = data.test[np.argsort(sureness)[:8]]

figure, panels = plt.subplots(1, 8, figsize=(9, 1.6), layout="constrained")
for panel, node, said in zip(panels, unsure, model.predict(unsure), strict=True):
    panel.imshow(np.asarray(data.graph.features)[node].reshape(8, 8), cmap="gray_r")
    panel.set_title(f"{said} ({data.y[node]})", fontsize=10)
    panel.axis("off")
plt.show()
