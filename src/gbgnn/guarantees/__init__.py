"""What the theory says of a fitted model: bounds of its error on the unlabelled nodes."""

from gbgnn.guarantees.bounds import depth_bound, generalisation_bound, margin_errors
from gbgnn.guarantees.complexities import Complexities, covered_spaces

__all__ = ["Complexities", "covered_spaces", "depth_bound", "generalisation_bound", "margin_errors"]
