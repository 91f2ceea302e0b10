"""Stages, Turns and BestOf: learners made of learners, one of which speaks in a round."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace

from gbgnn._threads import map_threads
from gbgnn.errors import ParameterError
from gbgnn.learners.base import USES, Head, Learner
from gbgnn.learners.consistency import ConsistentNetwork
from gbgnn.learners.early_stopping import validation_losses
from gbgnn.learners.graph_network import GraphNetwork
from gbgnn.learners.trees import BoostedTrees
from gbgnn.rounds import RoundContext


@dataclass(kw_only=True, eq=False, repr=False)
class _Several(Learner):
    """Has learners as settings, one of which speaks in a round: needs what any of them needs."""

    @property
    def _learners(self) -> dict[str, Learner]:
        return {setting.name: getattr(self, setting.name) for setting in fields(self)}

    @property
    def uses(self) -> str:  # type: ignore[override]
        """What the one looks at who looks at most."""
        return max((learner.uses for learner in self._learners.values()), key=USES.index)

    @property
    def takes_gaps(self) -> bool:  # type: ignore[override]
        """Whether all do."""
        return all(learner.takes_gaps for learner in self._learners.values())

    @property
    def takes_offsets(self) -> bool:  # type: ignore[override]
        """Whether all do."""
        return all(learner.takes_offsets for learner in self._learners.values())

    @property
    def hears_labels(self) -> bool:  # type: ignore[override]
        """Whether one of them does."""
        return any(learner.hears_labels for learner in self._learners.values())

    @property
    def watches_validation(self) -> bool:
        """Whether one of them does."""
        return any(learner.watches_validation for learner in self._learners.values())

    @property
    def is_differentiable(self) -> bool:
        """Whether all are."""
        return all(learner.is_differentiable for learner in self._learners.values())

    def check(self) -> None:
        """Raise when a setting of one of them is out of range."""
        for name, learner in self._learners.items():
            if not isinstance(learner, Learner):
                raise ParameterError(
                    f"{type(self).__name__}.{name} must be a learner, such as MLP(); got {learner!r}."
                )
            learner.check()


@dataclass(kw_only=True, eq=False, repr=False)
class Stages(_Several):
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

    def fit(self, context: RoundContext) -> Head:
        """Train the head of a round."""
        return (self.first if context.t == 1 else self.then).fit(context)


@dataclass(kw_only=True, eq=False, repr=False)
class Turns(_Several):
    """Two learners that take turns, round by round, so that rounds see different views of the same nodes.

    What one view gets wrong another may get right, which rounds that are alike cannot. To have more than two
    take turns, give one that takes turns itself: it is handed its own first round, then its second.

    Parameters
    ----------
    odd
        The learner of rounds 1, 3, 5 and so on.
    even
        The learner of rounds 2, 4, 6 and so on.

    Examples
    --------
    >>> near, far = ConsistentNetwork(n_hops=2), ConsistentNetwork(n_hops=10)
    >>> Turns(odd=near, even=far)
    Turns(even=ConsistentNetwork(n_hops=10), odd=ConsistentNetwork(n_hops=2))
    """

    odd: Learner = field(default_factory=ConsistentNetwork)
    even: Learner = field(default_factory=lambda: ConsistentNetwork(n_hops=4, row_norm="l1"))

    def fit(self, context: RoundContext) -> Head:
        """Train the head of a round."""
        turn, is_even = divmod(context.t - 1, 2)
        return (self.even if is_even else self.odd).fit(replace(context, t=turn + 1))


@dataclass(kw_only=True, eq=False, repr=False)
class BestOf(_Several):
    """Two learners that are both trained in every round; the one that validation nodes prefer is kept.

    What a graph wants, many hops or few, strong penalties or weak ones, is best found out by trying. The head
    is kept for which the mean loss of the validation nodes is less, of scores so far plus output where there
    are some. To choose among more than two, give one that chooses itself. On a CPU, several may be trained at
    the same time.

    Parameters
    ----------
    one
        A learner; the only one that is trained where there are no validation nodes.
    other
        Another.

    Examples
    --------
    >>> weak, strong = ConsistentNetwork(weight_decay=0.001), ConsistentNetwork(weight_decay=0.003)
    >>> BestOf(one=weak, other=strong)
    BestOf(one=ConsistentNetwork(weight_decay=0.001),
           other=ConsistentNetwork(weight_decay=0.003))
    """

    one: Learner = field(default_factory=ConsistentNetwork)
    other: Learner = field(default_factory=lambda: ConsistentNetwork(n_hops=2))

    @property
    def watches_validation(self) -> bool:
        """Always: who is kept depends on it."""
        return True

    def fit(self, context: RoundContext) -> Head:
        """Train all heads, and return the best one."""
        learners = self.candidates()
        if context.weak_task.val_rows is None:
            return learners[0].fit(context)
        in_threads = all(each.trains_in_threads for each in learners) and context.scores.device.type == "cpu"

        def train(learner: Learner) -> tuple[float, Head]:
            # Memory that is kept from round to round is for one learner at a time.
            head = learner.fit(replace(context, workspace={}) if in_threads else context)
            return _validation_loss(head, context), head

        trained = map_threads(train, learners, work=math.inf) if in_threads else list(map(train, learners))
        losses = [loss for loss, _ in trained]
        best = losses.index(min(losses))
        head = trained[best][1]
        told = [loss if math.isfinite(loss) else None for loss in losses]
        head.chosen = {"learner": " ".join(repr(learners[best]).split()), "val_losses": told}
        return head

    def candidates(self) -> list[Learner]:
        """Return the learners to choose from, also those of another one of this kind."""
        own = (self.one, self.other)
        return [
            each
            for learner in own
            for each in (learner.candidates() if isinstance(learner, BestOf) else [learner])
        ]


def _validation_loss(head: Head, context: RoundContext) -> float:
    """Return the mean loss of the validation nodes, infinity where it is no number."""
    output = head.evaluate(context.X, context.inputs)
    loss = float(validation_losses(output, context.weak_task).mean())
    return math.inf if math.isnan(loss) else loss
