from __future__ import annotations

from antiphon_core.clock import ManualClock
from antiphon_core.retrying import RetryPolicy
from antiphon_edge.background.model_health import ModelHealth

RETRY = RetryPolicy(for_s=60, first_s=1, most_s=8)


def test_a_model_that_is_down_is_tried_by_one_job_at_a_time() -> None:
    clock = ManualClock()
    models = ModelHealth(RETRY, clock=clock)
    assert models.begin("m") == 0
    models.note_failure("m")
    assert 0 < models.begin("m") <= 1
    assert models.begin("other") == 0
    clock.advance(1)
    assert models.begin("m") == 0
    assert models.begin("m") > 0
    models.note_failure("m")
    clock.advance(1)
    assert models.begin("m") > 0  # the backoff grows


def test_backoff_is_reset_when_the_model_answers() -> None:
    models = ModelHealth(RETRY, clock=ManualClock())
    models.note_failure("m")
    models.note_output("m")
    assert models.begin("m") == 0


def test_jobs_wait_for_the_whole_backoff_while_one_job_tries_the_model() -> None:
    clock = ManualClock()
    models = ModelHealth(RETRY, clock=clock)
    models.note_failure("m")
    clock.advance(1)
    assert models.begin("m") == 0
    clock.advance(100)  # the attempt takes long
    assert 0.7 <= models.begin("m") <= 1  # a short wait would use up the job's attempts: each claim is one


def test_the_next_job_tries_after_one_that_was_cancelled_without_an_answer() -> None:
    clock = ManualClock()
    models = ModelHealth(RETRY, clock=clock)
    models.note_failure("m")
    clock.advance(1)
    assert models.begin("m") == 0
    models.gave_up("m")
    assert models.begin("m") == 0
    assert models.begin("m") > 0
