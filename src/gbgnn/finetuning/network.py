"""MultiScaleNetwork: a boosted model as one function of all its parameters, with its gradient."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch

from gbgnn.boosting import Ensemble, Round, Voting
from gbgnn.errors import ParameterError
from gbgnn.finetuning.heads import FineTunedHeads, check_differentiable
from gbgnn.finetuning.hop_gradients import FixedHops, make_differentiable
from gbgnn.finetuning.memory import Needs, plan_memory
from gbgnn.finetuning.representations import Positions, RowTerms, Terms
from gbgnn.losses import Loss
from gbgnn.metrics import Metric, Predicted, as_metric
from gbgnn.problem import Problem

LEARNERS, ETAS, AGGREGATION = MOVES = ("learners", "etas", "aggregation")


class MultiScaleNetwork:
    r"""The scores of the labelled nodes as a function of heads, steps and the hops' numbers.

    Only the rows of representations that belong to labelled and validation nodes are formed, a few nodes at
    a time; the loss is a sum over nodes, so its gradient is added up.

    Parameters
    ----------
    ensemble, problem, voting, loss
        The model as it was boosted, on what, how it predicts, and what is to fall.
    metric
        By what it is judged beside the loss; None is the task's default.
    moves
        What is fine-tuned: some of ``"learners"``, ``"etas"``, ``"aggregation"``.
    memory_limit
        Bytes that may be used beside the model, the features and P.
    is_batched
        Whether :meth:`accumulate` will be asked for scattered nodes.
    """

    def __init__(
        self,
        ensemble: Ensemble,
        problem: Problem,
        voting: Voting,
        loss: Loss,
        *,
        metric: Metric | None = None,
        moves: Sequence[str] = MOVES,
        memory_limit: int = 2**31,
        is_batched: bool = False,
    ) -> None:
        self.ensemble, self.problem, self.moves = ensemble, problem, tuple(moves)
        self.voting, self.loss = voting.softened(), loss
        self.metric = as_metric(problem.task.default_metric) if metric is None else metric
        self._limit, self._is_batched = memory_limit, is_batched
        self._inputs = problem.inputs
        nodes = [problem.train]
        nodes += [problem.validation] if problem.validation is not None else []
        self._rows = torch.cat([part.rows for part in nodes])
        self._targets = torch.cat([part.targets for part in nodes])
        self._weights = torch.cat([part.weights for part in nodes])

        for trained in ensemble:
            check_differentiable(trained.kept_head(), trained.t)
        hops = [trained.hop for trained in ensemble]
        self.hops = make_differentiable(hops, self._inputs) if AGGREGATION in moves else FixedHops(hops)
        if self.moves == (AGGREGATION,) and not self.hops.thetas:
            raise ParameterError(
                'FineTuner.moves=("aggregation",) leaves nothing to move: the hops of this model have no '
                'free numbers. Add "learners" or "etas".'
            )
        self.etas = torch.tensor(ensemble.etas, dtype=torch.float64, device=self._inputs.device)
        self.etas.requires_grad_(ETAS in moves)
        self.rows = self._build_rows()
        self.heads = self._build_heads()

    @property
    def work(self) -> int:
        """Multiply-adds of the largest products of a gradient."""
        return len(self._rows) * sum(value.numel() for value in self.heads.parameters())

    @property
    def train(self) -> slice:
        """Positions of the labelled nodes."""
        return slice(0, self.problem.train.size)

    @property
    def validation(self) -> slice | None:
        """Positions of the validation nodes."""
        return None if self.problem.validation is None else slice(self.problem.train.size, len(self._rows))

    def parameters(self) -> dict[str, list[torch.Tensor]]:
        """Return the parameters that are fine-tuned, by kind."""
        kinds = {
            LEARNERS: self.heads.parameters(),
            ETAS: [self.etas],
            AGGREGATION: [theta for theta in self.hops.thetas if len(theta)],
        }
        return {kind: kinds[kind] for kind in self.moves if kinds[kind]}

    def accumulate(self, positions: Positions, scale: float = 1.0) -> float:
        """Add the gradient of ``scale`` times the weighted loss to all parameters; return that loss."""
        total = 0.0
        coefficients = self._coefficients()
        # The gradients of a few nodes at a time add up in a leaf, and go on to the hops' parameters once.
        leaf = coefficients.detach().requires_grad_(coefficients.requires_grad)
        for part, X in self._parts(positions, leaf):
            values = self.loss.values(self._scores(X, self.voting).double(), self._targets[part])
            loss = scale * (values * self._weights[part]).sum()
            loss.backward()
            total += float(loss.detach())
        if leaf.grad is not None:
            coefficients.backward(leaf.grad)
        return total

    def take_gradients(self) -> dict[str, list[torch.Tensor]]:
        """Return the gradients that :meth:`accumulate` added up, and start again from zero."""
        taken = {}
        for kind, parameters in self.parameters().items():
            taken[kind] = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
            for parameter in parameters:
                parameter.grad = None
        return taken

    @torch.no_grad()
    def scores(self, positions: Positions, voting: Voting) -> torch.Tensor:
        """Return the scores of some nodes under ``voting``: the soft one, or the one of boosting."""
        parts = self._parts(positions, self._coefficients())
        return torch.cat([self._scores(X, voting) for _, X in parts])

    def measure(self, voting: Voting) -> dict[str, float]:
        """Return loss and metric of the labelled nodes, and of the validation nodes where there are any."""
        measured = self._measure("train", self.train, voting)
        if self.validation is None:
            return measured
        return measured | self._measure("val", self.validation, voting)

    def measure_validation(self) -> dict[str, Any]:
        """Return loss and metric of the validation nodes under the soft voting; None without such nodes."""
        if self.validation is None:
            return {"val_loss": None, f"val_{self.metric.name}": None}
        return self._measure("val", self.validation, self.voting)

    def after_epoch(self) -> None:
        """Compute other terms where the hops have come to need them."""
        if self.hops.needs_other_terms(self.rows.terms.n_terms):
            del self.rows  # before the new terms take their room
            self.rows = self._build_rows()

    @torch.no_grad()
    def rebuild(self) -> Ensemble:
        """Return the model as it is now, in ordinary rounds."""
        heads = [trained.kept_head() for trained in self.ensemble]
        if LEARNERS in self.moves:
            heads = self.heads.rebuild()
        rounds = zip(self.ensemble, self.hops.hops(), heads, self.etas.tolist(), strict=True)
        return Ensemble(tuple(Round(old.t, hop, head, eta) for old, hop, head, eta in rounds))

    def _measure(self, name: str, positions: slice, voting: Voting) -> dict[str, float]:
        scores, targets = self.scores(positions, voting), self._targets[positions]
        link = partial(voting.link, total_eta=float(self.etas.detach().sum()))
        predicted = Predicted(self.problem.task, scores, targets, link)
        # Scikit-learn refuses to judge what diverged, and that must not be the end of it.
        judged = self.metric.score(predicted) if bool(scores.isfinite().all()) else math.nan
        loss = float(self.loss.mean(scores, targets, self._weights[positions]))
        return {f"{name}_loss": loss, f"{name}_{self.metric.name}": judged}

    def _scores(self, X: torch.Tensor, voting: Voting) -> torch.Tensor:
        output = self.heads(X)
        votes = voting.direction(output.flatten(0, 1)).unflatten(0, output.shape[:2])
        scores: torch.Tensor = torch.tensordot(self.etas.to(X.dtype), votes, 1)
        return scores

    def _coefficients(self) -> torch.Tensor:
        return self.hops.coefficients(self.rows.terms.n_terms)

    def _parts(
        self, positions: Positions, coefficients: torch.Tensor
    ) -> Iterator[tuple[Positions, torch.Tensor]]:
        """Yield positions, few enough to work with at once, and the (T, n, C) representations there."""
        for part, terms in self.rows.parts(positions):
            yield part, self.hops.mix(coefficients, terms, self._rows[part], self.rows.plan.n_columns)

    def _build_rows(self) -> RowTerms:
        terms = self.hops.terms()
        plan = plan_memory(self._limit, self._needs(terms))
        return RowTerms(terms, self._inputs, self._rows, plan)

    def _needs(self, terms: Terms) -> Needs:
        n_nodes, n_columns = self._inputs.features.shape
        size = self._inputs.dtype.itemsize
        heads = [trained.kept_head() for trained in self.ensemble]
        weights = [value for head in heads for value in head.parameters()]
        activations = 4 * sum(value.shape[0] for value in weights)  # of a layer, weights and biases count it
        # The representations, their gradients round by round, and these put together.
        mixed = 3 * len(heads) * n_columns if self.hops.thetas else 0
        return Needs(
            # The copy, its raw form, their gradients, two averages of the optimiser, the best so far.
            fixed=7 * sum(value.nbytes for value in weights) + self.hops.nbytes,
            column=terms.n_arrays * n_nodes * size,
            n_columns=n_columns,
            terms=terms.n_terms * n_columns * size,
            work=size * (activations + mixed),
            copy=terms.n_terms * n_columns * size if self._is_batched else 0,
            n_rows=len(self._rows),
            is_divisible=terms.is_divisible,
            can_hold=terms.is_fixed,
        )

    @torch.no_grad()
    def _build_heads(self) -> FineTunedHeads:
        """Standardise the inputs of every head by the labelled rows, in double precision."""
        sums = squares = self.etas.new_zeros(())
        for _, X in self._parts(self.train, self._coefficients()):
            sums = sums + X.sum(dim=1, dtype=torch.float64)
            squares = squares + _norms(X)
        n_rows = self.problem.train.size
        centres = sums / n_rows
        sizes = (squares / n_rows - centres.square().sum(dim=1)).clamp_min(0).sqrt()
        heads = [trained.kept_head() for trained in self.ensemble]
        sizes = torch.where(sizes > 0, sizes, 1.0)
        dtype = self._inputs.dtype
        tuned = FineTunedHeads(heads, centres.to(dtype), sizes.to(dtype))
        for value in tuned.parameters():
            value.requires_grad_(LEARNERS in self.moves)
        return tuned


def _norms(X: torch.Tensor) -> torch.Tensor:
    """Return the squared norms of matrices, summed up in double precision row by row."""
    return X.square().sum(dim=2).sum(dim=1, dtype=torch.float64)
