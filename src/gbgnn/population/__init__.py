"""Many models trained at once, as one batched model."""

from gbgnn.population.inputs import PopulationInputs
from gbgnn.population.loop import train_population
from gbgnn.population.members import reason_apart
from gbgnn.population.results import MemberResult

__all__ = ["MemberResult", "PopulationInputs", "reason_apart", "train_population"]
