"""
Coming from PyTorch Geometric
=============================

A ``Data`` object goes in as it is, masks included, and comes out again. Beside the same two-layer graph
convolutional network that PyTorch Geometric's introduction trains, this page fits gbgnn on the same
split.
"""

# %%
# The same data
# -------------
from time import perf_counter

import matplotlib.pyplot as plt
import torch
from torch_geometric.nn import GCNConv

from gbgnn import GBGNNClassifier, datasets

# Any ``torch_geometric.data.Data`` would do; this one is drawn, so that nothing has to be downloaded.
drawn = datasets.csbm(n_nodes=2000, n_classes=4, homophily=0.6, n_features=64, n_val=300, seed=0)
data = datasets.to_pyg(drawn)
print(data)

# %%
# PyTorch Geometric
# -----------------


class GCN(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = GCNConv(data.num_features, 16)
        self.second = GCNConv(16, int(data.y.max()) + 1)

    def forward(self, x: torch.Tensor, edge_index: torch.Tensor) -> torch.Tensor:
        x = torch.nn.functional.dropout(self.first(x, edge_index).relu(), training=self.training)
        return self.second(x, edge_index)


torch.manual_seed(0)
start = perf_counter()
network = GCN()
optimizer = torch.optim.Adam(network.parameters(), lr=0.01, weight_decay=5e-4)
for _ in range(200):
    network.train()
    optimizer.zero_grad()
    out = network(data.x, data.edge_index)
    torch.nn.functional.cross_entropy(out[data.train_mask], data.y[data.train_mask]).backward()
    optimizer.step()
network.eval()
said = network(data.x, data.edge_index).argmax(dim=1)
gcn_seconds = perf_counter() - start
gcn = float((said == data.y)[data.test_mask].float().mean())
print(f"GCN: {gcn:.1%} in {gcn_seconds:.1f} s")

# %%
# gbgnn
# -----
mine = datasets.from_pyg(data)
start = perf_counter()
model = GBGNNClassifier(preset="fast", random_state=0)
model.fit(mine.train, mine.y[mine.train], graph=mine.graph, validation=(mine.val, mine.y[mine.val]))
seconds = perf_counter() - start
print(
    f"gbgnn: {model.score(mine.test, mine.y[mine.test]):.1%} in {seconds:.1f} s, {len(model.history_)} rounds"
)

# %%
# What corresponds to what
# ------------------------
# ====================================  ===============================================================
# PyTorch Geometric                     gbgnn
# ====================================  ===============================================================
# ``Data(x, edge_index, y, masks)``     ``datasets.from_pyg(data)``, back with ``datasets.to_pyg``
# a layer more, ``GCNConv``             a round more, ``n_rounds``: no gradient passes through the graph
# the same layers, in a round           ``learner=ConvolutionNetwork()``, ``GraphNetwork()``
# ``dropout``, ``weight_decay``, ...    settings of the learner: ``MLP(dropout=0.5)``
# the loop over epochs                  ``fit``, with ``callbacks=`` to look on
# ``data.to("cuda")``                   ``device="cuda"``
# ``Planetoid(root, "Cora")``           ``datasets.load("cora")``
# ====================================  ===============================================================
#
# Depth
# -----
# A network is as deep as it was built. A boosted model can be looked at round by round:
# ``staged_score`` says how good the model is that was stopped there.
staged = [100 * score for score in model.staged_score(mine.test, mine.y[mine.test])]
figure, axes = plt.subplots(figsize=(7, 3.6), layout="constrained")
axes.plot(
    range(1, len(staged) + 1), staged, marker="o", color="#2563eb", label="gbgnn, stopped at this round"
)
axes.axhline(100 * gcn, color="#d97706", linestyle="--", label="GCN, two layers")
axes.axvline(model.best_round_, color="#9ca3af", linestyle=":", label="round chosen on validation nodes")
axes.set_xticks(range(2, len(staged) + 1, 2))
axes.set(xlabel="round", ylabel="accuracy on test nodes, %")
axes.legend(frameon=False)
axes.spines[["top", "right"]].set_visible(False)
plt.show()
