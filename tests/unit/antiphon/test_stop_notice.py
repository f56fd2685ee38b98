from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from antiphon import stop_notice


def part(running: int, work: str, drain_s: float) -> Any:
    return SimpleNamespace(running=running, work=work, drain_s=drain_s)


@pytest.mark.parametrize(
    ("edge", "worker", "notice"),
    [
        (part(0, "response", 9), None, "nothing runs"),
        (part(1, "response", 9), None, "1 response still running, with up to 9 s to end"),
        (
            part(50, "response", 9),
            part(2, "background response", 0.5),
            "50 responses and 2 background responses still running, with up to 9 s to end",
        ),
        (part(0, "response", 9), part(2, "job", 0.5), "2 jobs still running, with up to 0.5 s to end"),
    ],
)
def test_notice_counts_the_work_that_still_runs(edge: Any, worker: Any, notice: str) -> None:
    process: Any = SimpleNamespace(edge=edge, worker=worker, translator=None, store=part(0, "call", 99))
    assert stop_notice.for_terminal(process) == f"\nStopping: {notice}; press Ctrl-C again to end at once."
