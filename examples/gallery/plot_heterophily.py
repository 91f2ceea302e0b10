"""
When neighbours differ
======================

Most methods for graphs assume that neighbours are alike. In some graphs they are not: people date
people unlike themselves, and a fraudster's links lead to honest customers. Here the share of links that
join nodes of the same class, the *homophily*, is turned from nothing to nearly everything, and all else
stays as it is.
"""

# %%
# Graphs of any homophily
# -----------------------
# ``datasets.csbm`` draws a contextual stochastic block model: every class has a mean, the features of a
# node scatter around that of its class, and links are drawn so that a given share stays within classes.
# Of four classes a quarter of the links would do so by chance: there the links say nothing at all.
import matplotlib.pyplot as plt

from gbgnn import GBGNNClassifier, datasets

HOMOPHILY = [0.0, 0.1, 0.25, 0.5, 0.75]


def draw(homophily: float) -> datasets.Dataset:
    """Return 1,200 nodes of four classes, a hundred labels each."""
    sizes = {"n_nodes": 1200, "n_classes": 4, "per_class": 100, "n_val": 300}
    return datasets.csbm(homophily=homophily, separation=1.5, **sizes, seed=0)


# %%
# Three models
# ------------
# The first sees no graph (``aggregation="identity"``). The second is the paper's method, which sees
# averages of neighbours. The third is what you get when you ask for nothing: with so many labels and so
# few columns that is boosted trees, which see a node's own columns *beside* those of its neighbours and
# the labels nearby, so that "unlike the neighbours" can be learned.
models = {
    "without the graph": {"aggregation": "identity"},
    "averages of neighbours": {"preset": "fast"},
    "default": {},
}
accuracy: dict[str, list[float]] = {name: [] for name in models}
for homophily in HOMOPHILY:
    data = draw(homophily)
    known = data.train, data.y[data.train]
    for name, settings in models.items():
        model = GBGNNClassifier(**settings, random_state=0)
        model.fit(*known, graph=data.graph, validation=(data.val, data.y[data.val]))
        accuracy[name].append(model.score(data.test, data.y[data.test]))

print(f"{'homophily':24}", *(f"{share:6.2f}" for share in HOMOPHILY))
for name, scores in accuracy.items():
    print(f"{name:24}", *(f"{score:6.1%}" for score in scores))

# %%
# At the right any method can use the links. At the left they are worth nearly as much, but not to a
# method that averages: there the default stands apart. In between, where links are drawn by chance,
# there is nothing to gain from them, and nobody loses by looking either.
figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
for name, scores in accuracy.items():
    axes.plot(HOMOPHILY, [100 * score for score in scores], marker="o", label=name)
axes.axvline(0.25, color="#9ca3af", linestyle=":", linewidth=1)
axes.text(0.26, 88, "links by chance", color="#6b7280", fontsize=9, va="top")
axes.set(xlabel="share of links within a class", ylabel="accuracy on test nodes, %")
axes.legend(frameon=False, loc="upper center")
axes.spines[["top", "right"]].set_visible(False)
plt.show()
