"""Peak memory of a fit: flat in the number of rounds, and never an N x N array.

Each fit runs in a process of its own; its peak resident memory is read from the operating system.
"""

from __future__ import annotations

import json
import subprocess
import sys

from common import publish, table

FIT = """
import json, resource, sys
from gbgnn import GBGNNClassifier, datasets
data = datasets.load(sys.argv[1])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
n_rounds, keep = int(sys.argv[2]), sys.argv[3] == "keep"
model = GBGNNClassifier(n_rounds=n_rounds, keep_learners=keep, random_state=0, device="cpu")
model.fit(data.train, data.y[data.train], graph=data.graph)
after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"loaded": before / 1024, "peak": after / 1024, "nodes": data.graph.n_nodes}))
"""


def measure(name: str, n_rounds: int, keep: str) -> dict[str, float]:
    command = [sys.executable, "-c", FIT, name, str(n_rounds), keep]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def main() -> None:
    rows, results = [], []
    for name in ("cora", "pubmed"):
        for keep in ("drop", "keep"):
            ten, hundred = (measure(name, n_rounds, keep) for n_rounds in (10, 100))
            growth = 100 * (hundred["peak"] / ten["peak"] - 1)
            square = ten["nodes"] ** 2 * 4 / 2**20
            used = hundred["peak"] - hundred["loaded"]
            learners = "kept" if keep == "keep" else "dropped"
            cells = [
                f"{ten['peak']:,.0f}",
                f"{hundred['peak']:,.0f}",
                f"{growth:+.1f} %",
                f"{used:,.0f}",
                f"{square:,.0f}",
            ]
            rows.append([name, learners, *cells])
            results.append(
                {"data": name, "learners": learners, "T=10": ten, "T=100": hundred, "growth_percent": growth}
            )
    header = [
        "data",
        "learners",
        "peak at T = 10, MB",
        "at T = 100",
        "growth",
        "of it by fit",
        "an N x N float32 array, MB",
    ]
    note = "Asked for: growth within 5 % with learners dropped; on PubMed far below the N x N array."
    publish("memory", "Peak memory", [note, "", *table(header, rows)], results)


if __name__ == "__main__":
    main()
