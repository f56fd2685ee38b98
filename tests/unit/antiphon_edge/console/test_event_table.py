from __future__ import annotations

from antiphon_edge.console import event_table


def test_the_table_of_the_page_is_up_to_date() -> None:
    """`make docs` writes it."""
    assert event_table.FILE.read_text("utf-8") == event_table.module()
