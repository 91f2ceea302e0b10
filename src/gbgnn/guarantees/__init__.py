"""What the theory says of a fitted model: bounds of its error on nodes whose labels it has not seen."""

from gbgnn.guarantees.clusters import ClusterBound, cluster_bound
from gbgnn.guarantees.complexities import covered_spaces
from gbgnn.guarantees.generalisation import depth_bound, generalisation_bound, margin_errors
from gbgnn.guarantees.holdout import holdout_bound

__all__ = [
    "ClusterBound",
    "cluster_bound",
    "covered_spaces",
    "depth_bound",
    "generalisation_bound",
    "holdout_bound",
    "margin_errors",
]
