from __future__ import annotations

import logging
from dataclasses import dataclass

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.telemetry.log_limit import LOG_INTERVAL_S
from antiphon_edge.http.connection_table import (
    MIN_CONNECTIONS,
    RESERVED_DESCRIPTORS,
    ConnectionLimits,
    ConnectionTable,
    free_descriptors,
)


@dataclass(eq=False)
class Connection:
    peer: str
    idle_since_s: float | None = 0.0
    is_shed: bool = False

    def shed(self) -> None:
        self.is_shed = True


def table_of(
    *connections: Connection, total: int = 4, per_peer: int = 3, clock: ManualClock | None = None
) -> ConnectionTable:
    limits, now_s = ConnectionLimits(total, per_peer), (clock or ManualClock()).monotonic
    table = ConnectionTable(limits, is_exempt=lambda peer: peer == "proxy", now_s=now_s)
    for each in connections:
        table.add(each)
    return table


def test_no_connection_is_closed_while_there_is_room() -> None:
    connection = Connection("a")
    assert table_of(connection).make_room("a")
    assert not connection.is_shed


def test_peer_at_its_limit_loses_its_longest_idle_connection() -> None:
    mine = [Connection("a", 3.0), Connection("a", 1.0), Connection("a", None)]
    other = Connection("b", 0.0)
    table = table_of(*mine, other, total=9)
    assert table.make_room("a")
    assert [each.is_shed for each in (*mine, other)] == [False, True, False, False]
    assert len(table) == 3


def test_peer_at_its_limit_with_only_busy_connections_is_rejected() -> None:
    table = table_of(*(Connection("a", None) for _ in range(3)), total=9)
    assert not table.make_room("a")
    assert table.make_room("b")


def test_exempt_proxy_may_have_any_number_of_connections() -> None:
    table = table_of(*(Connection("proxy", None) for _ in range(5)), total=9)
    assert table.make_room("proxy")


def test_at_the_total_the_peer_with_the_most_connections_loses_one() -> None:
    many = [Connection("a", 5.0), Connection("a", 6.0)]
    few = Connection("b", 1.0)
    assert table_of(*many, few, Connection("c")).make_room("d")
    assert [each.is_shed for each in (*many, few)] == [True, False, False]


def test_at_the_total_an_idle_connection_of_a_smaller_peer_is_closed() -> None:
    few = Connection("b", 1.0)
    assert table_of(Connection("a", None), Connection("a", None), few, total=3).make_room("d")
    assert few.is_shed


def test_at_the_total_without_an_idle_connection_a_new_one_is_rejected() -> None:
    assert not table_of(*(Connection(str(number), None) for number in range(4))).make_room("d")


def test_connections_that_arrive_count_towards_the_total() -> None:
    busy = [Connection("a", None), Connection("b", None)]
    assert table_of(*busy).make_room("c", arriving=["d"])
    assert not table_of(*busy).make_room("c", arriving=["d", "d"])


def test_connections_that_arrive_count_towards_the_limit_of_their_peer() -> None:
    busy = [Connection("a", None), Connection("a", None)]
    assert table_of(*busy, total=9).make_room("a", arriving=["b"])
    assert not table_of(*busy, total=9).make_room("a", arriving=["a"])
    assert table_of(Connection("proxy", None), total=9).make_room("proxy", arriving=["proxy"] * 3)


def test_many_rejected_connections_are_logged_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    table = table_of(*(Connection("a", None) for _ in range(3)), clock=clock)
    with caplog.at_level(logging.WARNING):
        for _ in range(1_000):
            table.make_room("a")
        assert len(caplog.records) == 1
        clock.advance(LOG_INTERVAL_S)
        table.make_room("a")
    assert "1000 connections" in caplog.records[-1].message


def test_the_limits_leave_descriptors_for_everything_else() -> None:
    limits = ConnectionLimits(16_384, 2_048)
    assert limits.within(1_024) == ConnectionLimits(1_024 - RESERVED_DESCRIPTORS, 480)
    assert limits.within(10**6) == limits
    assert limits.within(70) == ConnectionLimits(MIN_CONNECTIONS, MIN_CONNECTIONS // 2)
    assert free_descriptors() > 0
