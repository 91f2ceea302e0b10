"""Search settings of the parts with scikit-learn, on node ids: honest transduction."""

from sklearn.model_selection import GridSearchCV

from gbgnn import GBGNNClassifier, InputInjection, datasets

data = datasets.load("digits")
grid = {
    "aggregation": ["adjacency", InputInjection(mixing=0.8)],
    "learner__weight_decay": [5e-4, 5e-3],
}
search = GridSearchCV(GBGNNClassifier(n_rounds=10, random_state=0), grid, cv=3)
search.fit(data.train, data.y[data.train], graph=data.graph)
print("best settings", search.best_params_)
print(f"cross-validated accuracy {search.best_score_:.3f}")
print(f"test accuracy {search.score(data.test, data.y[data.test]):.3f}")
