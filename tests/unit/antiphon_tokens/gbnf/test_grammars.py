"""The answers of trials. Trials themselves are run in tests/integration/local/test_grammars.py."""

from __future__ import annotations

from threading import Event, Thread

import pytest

from antiphon_tokens.gbnf import grammars
from antiphon_tokens.generation import RequestError
from tests.support.waiting import WAIT_MAX_S


def test_known_guide_does_not_wait_for_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    made, begun, may_end = grammars.Grammars("none"), Event(), Event()
    monkeypatch.setattr(made, "_compile_in_time", lambda *_: {"grammar": "known"})
    made.of("regex", "a")

    def slow(*_: str) -> dict[str, str]:
        begun.set()
        may_end.wait()
        return {"grammar": "new"}

    monkeypatch.setattr(made, "_compile_in_time", slow)
    trial = Thread(target=made.of, args=("regex", "b"))
    trial.start()
    assert begun.wait(WAIT_MAX_S)
    asked = Thread(target=made.of, args=("regex", "a"), daemon=True)
    asked.start()
    asked.join(WAIT_MAX_S)
    waits = asked.is_alive()
    may_end.set()
    trial.join()
    assert not waits


def test_trial_that_took_too_long_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    made = grammars.Grammars("none")
    answers = iter([{"error": "took longer", "retry": "yes"}, {"grammar": "g"}])
    monkeypatch.setattr(made, "_compile_in_time", lambda *_: next(answers))
    with pytest.raises(RequestError, match="took longer"):
        made.of("regex", "a")
    assert made.of("regex", "a") == made.of("regex", "a") == "g"
