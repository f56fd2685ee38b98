"""The table that is printed and kept in the docs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest

from antiphon_store import testing
from antiphon_store.testing.topics import NEEDS, TOPICS, Capability, Suite
from tests.contract.store.implementations import BACKENDS, NOT_YET
from tests.contract.store.kit_table import PROPERTY, KitTable
from tests.contract.store.table import HOLE, page, promise

DOCUMENT = Path(__file__).parents[3] / "docs/reference/store-engines.md"
SUITES = {getattr(testing, name) for name in testing.__all__ if name.endswith("Suite")}


def test_the_documented_table_equals_the_generated_one() -> None:
    assert DOCUMENT.read_text("utf-8") == page(), "run: make docs"


@pytest.mark.parametrize("suite", sorted(SUITES, key=str))
def test_every_suite_has_one_topic(suite: Suite) -> None:
    assert [topic for topic, suites in TOPICS.items() if suite in suites] != []
    assert sum(suites.count(suite) for suites in TOPICS.values()) == 1


def test_every_part_that_needs_a_capability_is_in_a_topic() -> None:
    suites = [suite for row in TOPICS.values() for suite in row]
    known = {*suites, *(member for suite in suites for member in vars(suite).values() if callable(member))}
    assert set(NEEDS) == set(Capability)
    assert all(part in known for parts in NEEDS.values() for part in parts)


def test_a_backend_that_cannot_be_reopened_lacks_durable_data() -> None:
    for backend in BACKENDS.values():
        assert (backend.durable is None) == (Capability.DURABLE_DATA in backend.lacks)


def test_table_fields_count_passed_and_failed_tests() -> None:
    table = KitTable()
    table.pytest_runtest_logreport(report("leases|sqlite", "passed"))
    table.pytest_runtest_logreport(report("leases|memory", "passed"))
    table.pytest_runtest_logreport(report("leases|memory", "failed"))
    assert table.result("leases", "sqlite") == "1"
    assert table.result("leases", "memory") == "1 failed"
    assert table.result("leases", "redis") == "not run"
    assert table.result("persistence", "memory") == "no: durable data"
    assert table.result("lifecycle", "memory over gRPC") == ""


def test_a_capability_that_is_not_yet_there_is_shown_as_a_hole(monkeypatch: pytest.MonkeyPatch) -> None:
    assert promise("jobs", "sqlite") == "yes"
    monkeypatch.setitem(BACKENDS, "sqlite", replace(BACKENDS["sqlite"], lacks={Capability.JOBS: NOT_YET}))
    assert {topic for topic in TOPICS if promise(topic, "sqlite") == HOLE} == {"jobs", "persistence"}


def report(field: str, outcome: Literal["passed", "failed"]) -> pytest.TestReport:
    location = ("test_x.py", 0, "test_x")
    return pytest.TestReport("test_x", location, {}, outcome, None, "call", user_properties=[(PROPERTY, field)])
