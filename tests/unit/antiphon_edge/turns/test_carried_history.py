from __future__ import annotations

import pytest

from antiphon_core.jsons import loads
from antiphon_edge.turns import carried_history

CARRIED = b'[{"type":"message","role":"user","content":"before"}]'


def test_turn_without_carried_history_is_unchanged() -> None:
    assert carried_history.history_and_input(None, b"[1]", "hi", keep=True) == (b"[1]", "hi")


def test_carried_history_comes_before_the_stored_history() -> None:
    history, given = carried_history.history_and_input(CARRIED, b"[1]", "hi", keep=False)
    assert loads(history) == [*loads(CARRIED), 1]
    assert given == "hi"


@pytest.mark.parametrize("given", ["hi", [{"role": "user", "content": "hi"}]])
def test_stored_turn_takes_the_carried_history_into_its_input(given: str | list[dict[str, str]]) -> None:
    history, joined = carried_history.history_and_input(CARRIED, b"[]", given, keep=True)
    assert history == b"[]"
    assert joined == [*loads(CARRIED), {"role": "user", "content": "hi"}]
