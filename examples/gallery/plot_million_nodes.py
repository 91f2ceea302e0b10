"""
A million nodes
===============

Nothing is back-propagated through the graph, so a round costs one product of a sparse matrix with the
features and a small fit on the labelled rows, and memory does not grow with depth. A million nodes are
then a matter of seconds, on a laptop, without a GPU.
"""

# %%
# The graph
# ---------
# A million nodes of five classes, five million links, sixteen columns, twenty labels a class. A number
# behind the script's name makes it smaller.
import sys
from time import perf_counter

import matplotlib.pyplot as plt

from gbgnn import GBGNNClassifier, datasets

n_nodes = int(sys.argv[1]) if sys.argv[1:] else 1_000_000
start = perf_counter()
data = datasets.csbm(n_nodes=n_nodes, n_classes=5, homophily=0.6, n_val=1000, seed=0)
print(f"{data}\ndrawn in {perf_counter() - start:.1f} s")

# %%
# Fit and predict
# ---------------
# Ten rounds: the last one sees what is nine steps away. ``keep_learners=False`` drops each learner when
# its round is over; the scores of all nodes stay.
start = perf_counter()
model = GBGNNClassifier(preset="fast", n_rounds=10, keep_learners=False, random_state=0)
model.fit(data.train, data.y[data.train], graph=data.graph, validation=(data.val, data.y[data.val]))
fitted = perf_counter()
everybody = model.predict(range(n_nodes))
done = perf_counter()
print(f"fitted in {fitted - start:.1f} s, all {n_nodes:,} nodes predicted in {done - fitted:.2f} s")

right = everybody[data.test] == data.y[data.test]
print(f"{right.mean():.1%} of {len(data.test):,} test nodes are right, with {len(data.train)} labels")

# %%
# Round by round
# --------------
# The first round sees a node's own columns. Each later one looks a step further, and is weighed by how
# much that helps.
history = model.history_
figure, (left, right_side) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
left.plot(history["round"], [100 * share for share in history["val_accuracy"]], marker="o", color="#2563eb")
left.set(xlabel="round", ylabel="accuracy on validation nodes, %")
right_side.bar(history["round"], history["seconds"], color="#d97706")
right_side.set(xlabel="round", ylabel="seconds")
for axes in (left, right_side):
    axes.set_xticks(history["round"])
    axes.spines[["top", "right"]].set_visible(False)
plt.show()
