"""
Numbers, and how far off they may be
====================================

Prices of flats in a town that nobody has a map of: what is next to what is known, and what a flat is
like, but not which quarters are dear. The price of a few is known; the others' is predicted, with an
interval that holds in nine cases out of ten.
"""

# %%
# A town
# ------
# It is made here: a dear centre, a dear shore, and noise. Columns of a flat are its size, age and
# floor; flats are linked to the eight nearest.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.neighbors import kneighbors_graph

from gbgnn import GBGNNRegressor, Graph, PredictionIntervals

rng = np.random.default_rng(0)
N = 1500
place = rng.random((N, 2))
flats = {
    "size": rng.gamma(9, 8, N).round(),
    "age": rng.integers(0, 100, N),
    "floor": rng.integers(0, 6, N),
}
centre = np.exp(-np.sum((place - [0.4, 0.6]) ** 2, axis=1) / 0.03)
shore = np.exp(-((place[:, 1] - 0.15 * np.sin(5 * place[:, 0]) - 0.1) ** 2) / 0.005)
per_metre = 3 + 4 * centre + 2.5 * shore - 0.01 * flats["age"] + rng.normal(0, 0.3, N)
price = per_metre * flats["size"]  # thousands

nearest = kneighbors_graph(place, 8)
graph = Graph(nearest + nearest.T, flats)
print(graph)

# %%
# What a flat costs
# -----------------
# 350 prices are known, another 150 choose how long to train. Beside the default stands scikit-learn's
# gradient boosting, which sees the flat's own columns.
nodes = rng.permutation(N)
train, val, calibration, test = (np.sort(part) for part in np.split(nodes, [350, 500, 700]))

model = GBGNNRegressor(random_state=0)
model.fit(train, price[train], graph=graph, validation=(val, price[val]))
columns = np.column_stack(list(flats.values()))
alone = HistGradientBoostingRegressor(random_state=0).fit(columns[train], price[train])
print(f"R2 on {len(test)} other flats: {model.score(test, price[test]):.3f}")
print(f"without neighbours: {alone.score(columns[test], price[test]):.3f}")

# %%
# The quarters that no column speaks of come back from the prices nearby.
figure, panels = plt.subplots(1, 3, figsize=(10, 3.6), layout="constrained", sharey=True)
shown = {
    "the truth": price / flats["size"],
    "gbgnn": model.predict(range(N)) / flats["size"],
    "own columns only": alone.predict(columns) / flats["size"],
}
for axes, (name, values) in zip(panels, shown.items(), strict=True):
    dots = axes.scatter(*place.T, c=values, s=6, cmap="viridis", vmin=1, vmax=8)
    axes.set(title=name, xticks=[], yticks=[], aspect="equal")
figure.colorbar(dots, ax=panels, label="thousands per square metre")
plt.show()

# %%
# How far off?
# ------------
# :class:`~gbgnn.PredictionIntervals` looks at 200 flats that the model was told nothing of, and takes
# intervals so wide that nine prices in ten of these, and so of others like them, lie inside.
intervals = PredictionIntervals(model, confidence=0.9).fit(calibration, price[calibration])
low, high = intervals.predict_interval(test).T
inside = (low <= price[test]) & (price[test] <= high)
print(
    f"{inside.mean():.1%} of the prices are inside; intervals are {np.median(high - low):.0f} thousand wide"
)

order = np.argsort(model.predict(test))
figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
axes.fill_between(range(len(test)), low[order], high[order], color="#93c5fd", alpha=0.5, label="interval")
for mask, colour, name in ((inside, "#1e3a8a", "price inside"), (~inside, "#dc2626", "price outside")):
    axes.scatter(np.flatnonzero(mask[order]), price[test][order][mask[order]], s=5, color=colour, label=name)
axes.set(xlabel="test flats, the cheapest prediction first", ylabel="price, thousands")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
plt.show()
