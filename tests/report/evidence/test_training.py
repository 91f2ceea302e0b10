from __future__ import annotations

from gbgnn.report import Subject
from gbgnn.report.evidence.training import follow_training


def test_curves_are_those_of_the_history(classes: Subject) -> None:
    (course,) = follow_training(classes).courses
    assert course.rounds == [1, 2, 3]
    assert course.curves["train_loss"] == classes.model.history["train_loss"]
    assert course.best == classes.model.best_round
    assert "learner" not in course.curves or not course.has("learner")
    assert course.has("val_loss")


def test_without_validation_nodes_there_is_no_such_curve(numbers: Subject) -> None:
    (course,) = follow_training(numbers).courses
    assert not course.has("val_loss")
    assert course.has("train_loss")


def test_every_member_of_an_average_has_its_rounds(average: Subject) -> None:
    training = follow_training(average)
    members = average.model.members
    assert [course.n_rounds for course in training.courses] == [len(own.model.history) for own in members]
    assert training.leaderboard == average.model.leaderboard
