from __future__ import annotations

import pytest

from gbgnn.aggregation import Aggregation, Hop


@pytest.mark.parametrize("family", [Aggregation, Hop])
def test_families_are_abstract(family: type) -> None:
    with pytest.raises(TypeError, match="abstract"):
        family()
