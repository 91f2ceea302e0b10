"""Train on the embedded data set and look at the result: the README's example."""

from gbgnn import GBGNNClassifier, datasets

data = datasets.load("digits")  # 1,797 images as nodes, 5 labels per class
model = GBGNNClassifier(random_state=0)
model.fit(data.train, data.y[data.train], graph=data.graph, validation=(data.val, data.y[data.val]))

print(f"test accuracy {model.score(data.test, data.y[data.test]):.3f}, round {model.best_round_}")
print("probabilities", model.predict_proba(data.test[:1]).round(2).max())
print("the training loss fell in every round:", min(model.history_["decrease"]) > 0)
