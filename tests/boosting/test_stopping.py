from __future__ import annotations

from gbgnn.boosting import StopReason


def test_every_reason_has_a_sentence() -> None:
    sentences = {reason.message for reason in StopReason}
    assert len(sentences) == len(StopReason)
    assert all(sentences)
