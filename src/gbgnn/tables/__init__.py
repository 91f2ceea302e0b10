"""Tables of mixed columns: read from any frame, encoded for networks and trees, linked into graphs."""

from __future__ import annotations

from gbgnn.tables.columns import Column
from gbgnn.tables.encoder import RawColumns, TableEncoder
from gbgnn.tables.leaks import warn_of_leak
from gbgnn.tables.table import NodeTable, as_node_table, is_table

__all__ = ["Column", "NodeTable", "RawColumns", "TableEncoder", "as_node_table", "is_table", "warn_of_leak"]
