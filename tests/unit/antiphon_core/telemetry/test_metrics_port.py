"""The application of the metrics port. tests/attacks/test_metrics_port.py has connections."""

from __future__ import annotations

import threading

from antiphon_core.telemetry.metrics_port import REST_MAX_S, RestingApp
from tests.support.waiting import WAIT_MAX_S


def test_texts_are_written_one_at_a_time_with_rests() -> None:
    running, most, rests, both = 0, 0, list[float](), threading.Barrier(2)

    def app(_environ: object, _start: object) -> list[bytes]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        running -= 1
        return [b"text"]

    resting = RestingApp(app, sleep=rests.append)

    def ask_once() -> None:
        both.wait(WAIT_MAX_S)
        assert list(resting({}, None)) == [b"text"]

    threads = [threading.Thread(target=ask_once) for _ in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert (most, len(rests)) == (1, 2)
    assert all(0 < each <= REST_MAX_S for each in rests)
