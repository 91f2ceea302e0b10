"""The same estimators over a Dask cluster: for graphs that no machine of yours holds."""

from gbgnn.errors import import_needed

import_needed("distributed", "gbgnn.dask", "dask")  # before the modules that need it

from gbgnn.dask.estimators import DaskGBGNNClassifier, DaskGBGNNRegressor
from gbgnn.dask.graph import DaskGraph
from gbgnn.dask.layout import open_client

__all__ = ["DaskGBGNNClassifier", "DaskGBGNNRegressor", "DaskGraph", "open_client"]
