"""Tables of a power-law graph, in Parquet parts, converted within a limit of memory, measured from outside.

The conversion is the command, in a process of its own; its peak is what the operating system says of it in
the end, interpreter and libraries included. The limit has to be kept, or there is no result.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
import pyarrow as pa
from common import publish, table
from pyarrow import parquet

from gbgnn._checks import as_bytes

N_PARTS = 16


class Case(NamedTuple):
    """How large the tables are, what ids are like, and how much memory their conversion may take."""

    name: str
    n_nodes: int
    n_edges: int
    n_features: int
    text: bool
    limit: str


CASES = (
    Case("numbers", 2_400_000, 62_000_000, 16, False, "1GB"),
    Case("numbers, less memory", 2_400_000, 62_000_000, 16, False, "800MB"),
    Case("text", 600_000, 10_000_000, 16, True, "1GB"),
)


def write_parts(case: Case, folder: Path) -> None:
    """Write nodes and edges: ends are drawn so that few nodes have very many neighbours."""
    rng = np.random.default_rng(0)
    ids = rng.permutation(case.n_nodes)

    def name(rows: np.ndarray) -> Any:
        if not case.text:
            return pa.array(ids[rows])
        return pa.array([f"user-{number:010d}" for number in ids[rows].tolist()])

    for kind, n_rows in (("nodes", case.n_nodes), ("edges", case.n_edges)):
        (folder / kind).mkdir(parents=True)
        for part in range(N_PARTS):
            start, stop = part * n_rows // N_PARTS, (part + 1) * n_rows // N_PARTS
            if kind == "nodes":
                rows = np.arange(start, stop)
                columns = {"id": name(rows), "label": rng.integers(0, 20, len(rows))}
                columns["split"] = rng.choice(np.array(["train", "val", "test"]), len(rows))
                columns |= {
                    f"x{i}": rng.standard_normal(len(rows), np.float32) for i in range(case.n_features)
                }
            else:
                size = stop - start
                # The k-th node is a source as often as k to the power of -0.6, a target as often as -0.33.
                sources = (case.n_nodes * rng.random(size) ** 2.5).astype(np.int64)
                targets = (case.n_nodes * rng.random(size) ** 1.5).astype(np.int64)
                columns = {"source": name(sources), "target": name(targets)}
            parquet.write_table(pa.table(columns), folder / kind / f"part-{part:05d}.parquet")


def convert(case: Case, folder: Path) -> dict[str, Any]:
    """Convert the tables in a process of its own, and return how long it took and its peak."""
    out = folder / "graph.gbgraph"
    words = ["convert", str(folder), str(out), "--memory-limit", case.limit, "--json"]
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "gbgnn", *words], stdout=subprocess.PIPE)
    assert process.stdout is not None
    told = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = status
    seconds = time.perf_counter() - start
    if status:
        raise SystemExit(f"{case.name}: gbgnn convert ended with status {status}: {told!r}")
    limit = as_bytes("convert", "limit", case.limit)
    peak = usage.ru_maxrss * 1024
    assert peak <= limit, f"{case.name}: the peak is {peak:,} bytes, above {case.limit}"
    written = sum(file.stat().st_size for file in out.iterdir())
    given = sum(file.stat().st_size for kind in ("nodes", "edges") for file in (folder / kind).iterdir())
    return {"seconds": seconds, "peak": peak, "limit": limit, "given": given, "written": written}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--share", type=float, default=1.0, help="of the nodes and edges, for a quick look")
    parser.add_argument(
        "--folder", type=Path, help="where tables are written, and left; else a temporary one"
    )
    given = parser.parse_args()
    rows, results, made = [], [], {}
    with tempfile.TemporaryDirectory() as temporary:
        place = given.folder or Path(temporary)
        for case in CASES:
            case = case._replace(
                n_nodes=int(case.n_nodes * given.share), n_edges=int(case.n_edges * given.share)
            )
            folder = made.setdefault(case[1:5], place / f"tables-{len(made)}")
            if not folder.exists():
                write_parts(case, folder)
            found = convert(case, folder)
            results.append(case._asdict() | found)
            rows.append(
                [
                    *(case.name, f"{case.n_nodes:,}", f"{case.n_edges:,}", f"{found['given'] / 1e9:.2f}"),
                    *(f"{found['seconds']:.0f}", f"{case.n_edges / found['seconds'] / 1e6:.2f}"),
                    *(f"{found['peak'] / 1e6:,.0f}", f"{found['limit'] / 1e6:,.0f}"),
                ]
            )
    header = ["ids", "nodes", "edge rows", "Parquet, GB", "seconds", "million edges a second"]
    header += ["peak memory, MB", "limit, MB"]
    note = "Nodes have 16 numbers, a label and a word of the split. Memory is that of the process as a whole."
    publish("convert", "Tables converted on disk", [note, "", *table(header, rows)], results)


if __name__ == "__main__":
    main()
