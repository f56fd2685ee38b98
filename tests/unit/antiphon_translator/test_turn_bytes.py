from __future__ import annotations

import pytest

from antiphon_core.errors import TranslatorUnavailable
from antiphon_core.ports.translator import Turn
from antiphon_translator.media.downloads import Download, Failure, Problem
from antiphon_translator.turn_bytes import TurnBytes


def turn(size: int, tenant: str) -> Turn:
    return Turn("resp_1", 0, b"r" * (size - 6), tenant=tenant)


def test_turns_and_what_they_fetch_count_until_they_end() -> None:
    turns = TurnBytes(100)
    with turns.count_turn(turn(40, "a")) as held:
        held.add_downloads({"u": Download(b"x" * 40), "v": Failure(Problem.DOWNLOAD, "")})
        with pytest.raises(TranslatorUnavailable, match="turns_bytes_max"):
            held.add(1)  # over the tenant's share
        with turns.count_turn(turn(16, "b")), pytest.raises(TranslatorUnavailable), turns.count_turn(turn(20, "c")):
            pass
    with turns.count_turn(turn(100, "c")):
        pass


def test_turn_takes_the_room_of_turns_that_have_ended() -> None:
    turns, ended = TurnBytes(100), list[str]()
    with turns.count_spare(turn(60, "a"), lambda: ended.append("a")) as has_room:
        assert has_room
        with turns.count_spare(turn(50, "b"), lambda: ended.append("b")) as has_more:
            assert (has_more, ended) == (False, []), "one that ended takes no room of others"
        with turns.count_turn(turn(40, "b")):
            assert ended == [], "there was room"
        with turns.count_turn(turn(100, "b")):
            assert ended == ["a"]
    with turns.count_turn(turn(100, "b")):
        pass
