"""Stages: one learner in the first round, another in those that follow."""

from __future__ import annotations

from dataclasses import dataclass, field

from gbgnn.errors import ParameterError
from gbgnn.learners.base import USES, Head, Learner
from gbgnn.learners.graph_network import GraphNetwork
from gbgnn.learners.trees import BoostedTrees
from gbgnn.rounds import RoundContext


@dataclass(kw_only=True, eq=False, repr=False)
class Stages(Learner):
    """One learner in the first round, another in those that follow, on the scores so far.

    Boosting does not ask rounds to be alike: trees may take what single columns tell, and a network what is
    left to be told along the graph.

    Parameters
    ----------
    first
        The learner of round 1.
    then
        The learner of the others.

    Examples
    --------
    >>> Stages(first=BoostedTrees(n_trees=10)).first
    BoostedTrees(n_trees=10)
    """

    first: Learner = field(default_factory=BoostedTrees)
    then: Learner = field(default_factory=GraphNetwork)

    @property
    def _both(self) -> tuple[Learner, Learner]:
        return self.first, self.then

    @property
    def uses(self) -> str:  # type: ignore[override]
        """What the one looks at who looks at more."""
        return max((learner.uses for learner in self._both), key=USES.index)

    @property
    def takes_gaps(self) -> bool:  # type: ignore[override]
        """Whether both do."""
        return all(learner.takes_gaps for learner in self._both)

    @property
    def takes_offsets(self) -> bool:  # type: ignore[override]
        """Whether both do."""
        return all(learner.takes_offsets for learner in self._both)

    @property
    def hears_labels(self) -> bool:  # type: ignore[override]
        """Whether one of them does."""
        return any(learner.hears_labels for learner in self._both)

    @property
    def watches_validation(self) -> bool:
        """Whether one of them does."""
        return any(learner.watches_validation for learner in self._both)

    @property
    def is_differentiable(self) -> bool:
        """Whether both are."""
        return all(learner.is_differentiable for learner in self._both)

    def check(self) -> None:
        """Raise when a setting of one of them is out of range."""
        for name, learner in zip(("first", "then"), self._both, strict=True):
            if not isinstance(learner, Learner):
                raise ParameterError(f"Stages.{name} must be a learner, such as MLP(); got {learner!r}.")
            learner.check()

    def fit(self, context: RoundContext) -> Head:
        """Train the head of a round."""
        return (self.first if context.t == 1 else self.then).fit(context)
