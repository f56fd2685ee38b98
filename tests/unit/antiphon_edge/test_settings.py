from __future__ import annotations

from antiphon_edge.settings import EdgeSettings


def test_loopback_is_the_default_and_gives_no_warning() -> None:
    assert list(EdgeSettings().warnings()) == []


def test_an_open_door_is_pointed_out() -> None:
    ((message, explanation),) = EdgeSettings(host="0.0.0.0").warnings()
    assert "not authenticated" in message
    assert "127.0.0.1" in explanation
