"""Why does a model say what it says of one node? Distances, columns and neighbours, summing to its score."""

import numpy as np
import pandas as pd

from gbgnn import MLP, GBGNNClassifier, Graph

random = np.random.default_rng(0)
n_people = 400
people = pd.DataFrame(
    {
        "age": random.normal(40, 10, n_people),
        "city": random.choice(["Oslo", "Rome", "Lima"], n_people),
        "shoes": random.integers(36, 47, n_people),
    }
)
calls = random.integers(0, n_people, (800, 2))
adjacency = np.zeros((n_people, n_people))
adjacency[calls[:, 0], calls[:, 1]] = adjacency[calls[:, 1], calls[:, 0]] = 1
np.fill_diagonal(adjacency, 0)
# People leave when those whom they call are old, and a little more often in Oslo.
around = adjacency @ people["age"] / np.maximum(adjacency.sum(axis=1), 1)
leaves = around + 5 * (people["city"] == "Oslo") + random.normal(0, 2, n_people) > 42

graph, train = Graph(adjacency, people), np.arange(200)
model = GBGNNClassifier(
    preset="fast",
    propagation="random_walk",
    learner=MLP(hidden_layers=0, epochs=200),
    n_rounds=3,
    select="last",
    random_state=0,
)
model.fit(train, leaves[train], graph=graph)

node = 327
why = model.explain([node])

told = why.contributions
print(f"person {node} leaves: {model.predict([node])[0]}, score {told.scores[0, 0]:+.3f}")
for name, added in zip(told.scales, told.by_scale[0, :, 0], strict=True):
    print(f"  {name:<12} {added:+.3f}")
print(f"decided by {told.decided_by[0]}; of all people: ", end="")
print(", ".join(f"{name} {share:.0%}" for name, share in model.scale_shares().items()))

columns = why.attributions
print("columns: " + ", ".join(f"{name} {added:+.3f}" for name, added in columns.top(0)))
assert np.allclose(columns.base + columns.values.sum(axis=1), model.scores_[[node]], atol=1e-5)

for other in why.neighbours[0].describe(4):
    age = people["age"][other["node"]]
    print(f"person {other['node']}, age {age:.0f}, {other['steps']} steps away: {other['added']:+.3f}")
