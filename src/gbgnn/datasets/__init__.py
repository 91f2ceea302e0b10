"""Graphs with labels: known data sets by name, your own from files, and ways to split them."""

from gbgnn.datasets.arrays import load_dataset, read_npz, save_dataset
from gbgnn.datasets.catalog import CATALOG, Entry, SearchedPlace, cache_folder, names, search_places, where
from gbgnn.datasets.convert import from_networkx, from_pyg
from gbgnn.datasets.dataset import Dataset
from gbgnn.datasets.loading import csbm, digits, karate, load
from gbgnn.datasets.planetoid import read_planetoid
from gbgnn.datasets.splits import kfold_splits, random_split, stratified_split
from gbgnn.datasets.tables import read_folder, read_folder_graph, read_graph, read_graphland, read_tables

__all__ = [
    "CATALOG",
    "Dataset",
    "Entry",
    "SearchedPlace",
    "cache_folder",
    "csbm",
    "digits",
    "from_networkx",
    "from_pyg",
    "karate",
    "kfold_splits",
    "load",
    "load_dataset",
    "names",
    "random_split",
    "read_folder",
    "read_folder_graph",
    "read_graph",
    "read_graphland",
    "read_npz",
    "read_planetoid",
    "read_tables",
    "save_dataset",
    "search_places",
    "stratified_split",
    "where",
]
