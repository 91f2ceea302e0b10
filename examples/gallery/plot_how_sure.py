"""
How sure may it be?
===================

A model gives every class a probability. Are they true: of the nodes that it is 80 % sure of, are 80 % right?
And where it is not sure, between which classes is it undecided?
"""

# %%
# A model that is too modest
# --------------------------
# 1,797 images of digits are nodes, linked to those that look alike; five of each digit have a label. The
# validation nodes choose the round, and half of them are set aside: they choose nothing.
import matplotlib.pyplot as plt
import numpy as np

from gbgnn import Calibrated, GBGNNClassifier, PredictionSets, datasets
from gbgnn.reliability import Reliability

data = datasets.load("digits").set_aside(0.5)
y, test = data.y, data.test
model = GBGNNClassifier(preset="fast", random_state=0)
model.fit(data.train, y[data.train], graph=data.graph, validation=(data.val, y[data.val]))
calibrated = Calibrated(model, method="graph").fit(data.val, y[data.val])

# %%
# Right is plotted against sure, in bins. Above the diagonal a model is right more often than it says. A
# temperature per node, learned from the validation nodes, brings it nearer to the diagonal; the class that is
# predicted is the same.
figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
axes.plot([0, 1], [0, 1], color="gray", ls="--", label="as sure as right")
for name, each in (("as boosted", model), ("calibrated", calibrated)):
    found = Reliability.of(each, test, y[test], n_bins=10)
    axes.plot(found.confidence, found.accuracy, marker="o", label=f"{name}, ECE {found.ece:.1%}")
axes.set(xlabel="probability of the predicted class", ylabel="share that is right")
axes.legend(frameon=False)
plt.show()

# %%
# Sets that hold the truth
# ------------------------
# A prediction set comes with a promise: it holds the true class of 97 in 100 nodes, whatever the model. The
# nodes that were set aside say how strange the truth may look; a class that looks no stranger is in the set.
sets = PredictionSets(calibrated, confidence=0.97).fit(data.calibration, y[data.calibration])
found = sets.evaluate(test, y[test])
print(
    f"{found.coverage:.1%} of {found.n_nodes:,} sets hold the class, {found.mean_size:.2f} classes on average"
)

# %%
# Most sets are one class. The others say between which digits the model cannot decide.
sizes = sets.predict_set(test).sum(axis=1)
undecided = test[np.flatnonzero((sizes > 1) & (sizes < 4))[:6]]
figure, panels = plt.subplots(1, 6, figsize=(9, 2), layout="constrained")
for axes, node, own in zip(panels, undecided, sets.predict_set(undecided), strict=True):
    axes.imshow(data.graph.features[node].reshape(8, 8), cmap="gray_r")
    axes.set_title(f"a {y[node]}; set: " + ", ".join(map(str, sets.classes_[own])), fontsize=9)
    axes.axis("off")
plt.show()

# %%
# What is promised, and when: :doc:`/docs/prediction-sets`. How temperatures are learned:
# :doc:`/docs/calibration`.
