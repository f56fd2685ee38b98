from __future__ import annotations

from antiphon_edge.operations.descriptions import DESCRIPTIONS
from antiphon_edge.operations.table import OPERATIONS


def test_every_description_is_of_an_operation_and_says_more_than_its_summary() -> None:
    summaries = {operation.name: operation.summary for operation in OPERATIONS}
    assert set(DESCRIPTIONS) <= set(summaries)
    for name, description in DESCRIPTIONS.items():
        assert description.endswith("."), name
        assert description.rstrip(".") != summaries[name]
