"""Counts the tests of documented clients in a test run, prints their table, and writes its page for `make clients`."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

PROPERTY = "client"  # of a test's report: the client's name and the feature
OPTION = "--clients-page"


class ClientResults:
    """A pytest plugin. With a path in --clients-page it writes the page there."""

    def __init__(self, page: str | None) -> None:
        self._page = page
        self.passed: Counter[tuple[str, str]] = Counter()
        self.failed: Counter[tuple[str, str]] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for key, value in report.user_properties:
            if key == PROPERTY:
                client, _, feature = str(value).partition("|")
                self.count(report, (client, feature))

    def count(self, report: pytest.TestReport, field: tuple[str, str]) -> None:
        if report.failed:
            self.failed[field] += 1
        elif report.when == "call" and report.passed:
            self.passed[field] += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        fields = {*self.passed, *self.failed}
        if not fields:
            return
        from tests.clients.client_table import page  # imported here: most runs do not use it

        text = page({field: (self.passed[field], self.failed[field]) for field in fields})
        terminalreporter.section("other people's clients: models passed with, by feature")
        terminalreporter.write_line(text[text.index("|") :])
        if self._page is not None:
            Path(self._page).write_text(text, encoding="utf-8")
