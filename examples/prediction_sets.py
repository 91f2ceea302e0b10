"""Probabilities that mean what they say, and sets of classes that hold the true one 95 times in 100."""

from gbgnn import Calibrated, GBGNNClassifier, PredictionSets, datasets
from gbgnn.reliability import Reliability

data = datasets.load("digits").set_aside(0.5)  # half of the validation nodes will choose nothing
y, test = data.y, data.test
model = GBGNNClassifier(preset="fast", random_state=0)
model.fit(data.train, y[data.train], graph=data.graph, validation=(data.val, y[data.val]))

calibrated = Calibrated(model, method="graph").fit(data.val, y[data.val])
for name, each in (("as boosted", model), ("calibrated", calibrated)):
    found = Reliability.of(each, test, y[test])
    sure = each.predict_proba(test).max(axis=1).mean()
    print(f"{name}: {sure:.0%} sure on average, {each.score(test, y[test]):.0%} right, ECE {found.ece:.3f}")

sets = PredictionSets(calibrated, confidence=0.95).fit(data.calibration, y[data.calibration])
found = sets.evaluate(test, y[test])
print(f"sets of 95 %: {found.coverage:.1%} hold the class, {found.mean_size:.2f} classes on average")
unsure = sets.predict_set(test).sum(axis=1).argmax()
print(
    "the largest set:", sets.classes_[sets.predict_set(test[unsure : unsure + 1])[0]], "of a", y[test[unsure]]
)
