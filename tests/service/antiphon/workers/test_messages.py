from __future__ import annotations

import io

import pytest

from antiphon.workers.messages import Assignment, Failed, Ready, parse_report
from antiphon_core.sealing_keys import SealingKeys
from antiphon_edge.settings import EdgeSettings
from tests.support.local_settings import settings


def test_an_assignment_is_decoded_as_it_was_encoded() -> None:
    edge = EdgeSettings(port=1, trusted_proxies=("10.0.0.0/8",))
    given = Assignment(3, ("edge", "worker"), settings(edge), SealingKeys.ephemeral())
    assert Assignment.read(io.BytesIO(given.encode())) == given


@pytest.mark.parametrize("report", [Ready("edge  http://h:1\nworker"), Failed("no\nsuch file", 2)])
def test_a_report_is_one_line(report: Ready | Failed) -> None:
    line = report.line()
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert parse_report(line) == report
