"""Counts the tests of the store's suites in a test run, and prints the table of table.py with the counts."""

from __future__ import annotations

from collections import Counter

import pytest

PROPERTY = "kit"  # of a test's report: its topic and implementation
NOT_RUN = "not run"


class KitTable:
    """A pytest plugin: counts the tests of suites by topic and implementation, and prints the table at the end."""

    def __init__(self) -> None:
        self.passed: Counter[tuple[str, str]] = Counter()
        self.failed: Counter[tuple[str, str]] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for key, value in report.user_properties:
            if key == PROPERTY:
                topic, name = str(value).split("|")
                self.count(report, (topic, name))

    def count(self, report: pytest.TestReport, field: tuple[str, str]) -> None:
        if report.failed:
            self.failed[field] += 1
        elif report.when == "call" and report.passed:
            self.passed[field] += 1

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        ran = {topic for topic, _ in self.passed + self.failed}
        if ran:
            # Imported here, because importing the backends and their clients would cost every test run half a second.
            from tests.contract.store.table import ROWS, aligned, rows_of

            terminalreporter.section("the store's backends: tests passed by topic")
            for line in aligned(rows_of([topic for topic in ROWS if topic in ran], self.result)):
                terminalreporter.write_line(line)

    def result(self, topic: str, name: str) -> str:
        """The result of a field in this run."""
        from tests.contract.store.table import promise

        field, promised = (topic, name), promise(topic, name)
        if self.failed[field]:
            return f"{self.failed[field]} failed"
        if promised.startswith("yes"):
            return str(self.passed[field]) if self.passed[field] else NOT_RUN
        return promised
