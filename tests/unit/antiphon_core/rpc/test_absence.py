from __future__ import annotations

from antiphon_core.errors import ResponseNotFound, StoreUnavailable, Timeout
from antiphon_core.rpc.absence import PAUSE_S, Absence

AWAY = StoreUnavailable("nobody there", away=True)


def test_a_service_is_waited_for_as_long_as_a_restart_takes() -> None:
    absence = Absence(10)
    for now_s in (100.0, 105.0, 109.9):
        pause_s = absence.pause_after(AWAY, now_s)
        assert pause_s is not None
        assert 0.5 * PAUSE_S < pause_s < 2 * PAUSE_S
    assert absence.pause_after(AWAY, 110.0) is None


def test_an_answer_ends_the_absence() -> None:
    absence = Absence(10)
    absence.pause_after(AWAY, 100.0)
    absence.is_over()
    assert absence.pause_after(AWAY, 200.0) is not None


def test_an_error_of_the_service_is_an_answer() -> None:
    absence = Absence(10)
    absence.pause_after(AWAY, 100.0)
    assert absence.pause_after(ResponseNotFound.of("r"), 105.0) is None
    assert absence.pause_after(StoreUnavailable("its disk is gone"), 106.0) is None
    assert absence.pause_after(AWAY, 115.0) is not None


def test_silence_is_absence_that_is_not_waited_for() -> None:
    absence = Absence(10)
    assert absence.pause_after(Timeout("nothing came"), 100.0) is None
    assert absence.pause_after(AWAY, 109.0) is not None
    assert absence.pause_after(AWAY, 110.0) is None


def test_without_a_wait_there_is_one_attempt() -> None:
    assert Absence(0).pause_after(AWAY, 100.0) is None
