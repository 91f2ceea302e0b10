"""Graphs with labels: known data sets by name, your own from files, and ways to split them."""

from gbgnn.datasets.arrays import load_dataset, save_dataset
from gbgnn.datasets.catalog import CATALOG, Entry, SearchedPlace, cache_folder, names, search_places, where
from gbgnn.datasets.conversion import Watch, convert_tables
from gbgnn.datasets.convert import from_networkx, from_pyg, to_networkx, to_pyg
from gbgnn.datasets.dataset import Dataset
from gbgnn.datasets.frames import read_arrow
from gbgnn.datasets.graphland import load_graphland
from gbgnn.datasets.loading import digits, karate, load
from gbgnn.datasets.npz import read_npz
from gbgnn.datasets.planetoid import read_planetoid
from gbgnn.datasets.splits import kfold_splits, random_split, stratified_split, uniform_split
from gbgnn.datasets.synthetic import csbm, power_law
from gbgnn.datasets.tables import read_folder, read_folder_graph, read_graph, read_tables
from gbgnn.datasets.targets import Target, as_target

__all__ = [
    "CATALOG",
    "Dataset",
    "Entry",
    "SearchedPlace",
    "Target",
    "Watch",
    "as_target",
    "cache_folder",
    "convert_tables",
    "csbm",
    "digits",
    "from_networkx",
    "from_pyg",
    "karate",
    "kfold_splits",
    "load",
    "load_dataset",
    "load_graphland",
    "names",
    "power_law",
    "random_split",
    "read_arrow",
    "read_folder",
    "read_folder_graph",
    "read_graph",
    "read_npz",
    "read_planetoid",
    "read_tables",
    "save_dataset",
    "search_places",
    "stratified_split",
    "to_networkx",
    "to_pyg",
    "uniform_split",
    "where",
]
