"""Many models trained at once, as one batched model."""

from gbgnn.population.inputs import PopulationInputs
from gbgnn.population.loop import train_population
from gbgnn.population.results import MemberResult

__all__ = ["MemberResult", "PopulationInputs", "train_population"]
