from __future__ import annotations

from antiphon_core.errors import ResponseNotFound, StoreUnavailable, Timeout
from antiphon_core.rpc.absence import PAUSE_S, Absence

AWAY = StoreUnavailable("nobody there", away=True)


def test_calls_to_an_absent_service_are_retried_until_the_wait_ends() -> None:
    absence = Absence(10)
    for now_s in (100.0, 105.0, 109.9):
        pause_s = absence.pause_after(AWAY, now_s)
        assert pause_s is not None
        assert 0.5 * PAUSE_S < pause_s < 2 * PAUSE_S
    assert absence.pause_after(AWAY, 110.0) is None


def test_an_answer_resets_the_wait_for_an_absent_service() -> None:
    absence = Absence(10)
    absence.pause_after(AWAY, 100.0)
    absence.is_over()
    assert absence.pause_after(AWAY, 200.0) is not None


def test_an_error_of_the_service_itself_is_not_retried_and_resets_the_wait() -> None:
    absence = Absence(10)
    absence.pause_after(AWAY, 100.0)
    assert absence.pause_after(ResponseNotFound.of("r"), 105.0) is None
    assert absence.pause_after(StoreUnavailable("its disk is gone"), 106.0) is None
    assert absence.pause_after(AWAY, 115.0) is not None


def test_a_timeout_begins_an_absence_and_is_not_retried() -> None:
    absence = Absence(10)
    assert absence.pause_after(Timeout("nothing came"), 100.0) is None
    assert absence.pause_after(AWAY, 109.0) is not None
    assert absence.pause_after(AWAY, 110.0) is None


def test_a_wait_of_zero_means_no_retry() -> None:
    assert Absence(0).pause_after(AWAY, 100.0) is None
