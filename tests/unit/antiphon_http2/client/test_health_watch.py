from __future__ import annotations

import asyncio
from typing import Any

import pytest
from grpc_health.v1 import health_pb2

from antiphon_http2.client import health_watch
from antiphon_http2.client.health_watch import watch_health
from antiphon_http2.errors import ConnectionLost, GrpcError
from antiphon_http2.statuses import UNIMPLEMENTED

State = health_pb2.HealthCheckResponse


class FakeStreams:
    """A connection with one server. Each watch gets the next of `watches`: states, and the error that ends it. Behind
    the last one the connection is lost."""

    def __init__(self, *watches: tuple[list[int], GrpcError | None]) -> None:
        self.watches = list(watches)
        self.requests: list[bytes] = []

    @property
    def is_connected(self) -> bool:
        return bool(self.watches)

    async def start(self, path: str, message: bytes, receive: Any) -> FakeStreams:
        assert path == "/grpc.health.v1.Health/Watch"
        self.requests.append(message)
        states, self.error = self.watches.pop(0)
        for state in states:
            receive([State(status=state).SerializeToString()])
        return self

    async def wait_end(self) -> None:
        if self.error is not None:
            raise self.error

    def cancel(self) -> None:
        pass


async def watched(streams: Any, monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    monkeypatch.setattr(health_watch, "_RETRY_S", 0.0)
    reports: list[bool] = []
    await asyncio.wait_for(watch_health(streams, "a.Service", reports.append), 10.0)
    return reports


async def test_each_state_is_reported_and_a_lost_watch_is_not_serving(monkeypatch: pytest.MonkeyPatch) -> None:
    states = [State.SERVING, State.NOT_SERVING, State.SERVICE_UNKNOWN, State.SERVING]
    streams = FakeStreams((states, ConnectionLost("gone")), ([State.SERVING], None))
    assert await watched(streams, monkeypatch) == [True, False, False, True, False, True, False]
    asked = health_pb2.HealthCheckRequest(service="a.Service").SerializeToString()
    assert streams.requests == [asked, asked]


async def test_a_server_without_health_serves(monkeypatch: pytest.MonkeyPatch) -> None:
    streams = FakeStreams(([], GrpcError(UNIMPLEMENTED, "no")), ([], None))
    assert await watched(streams, monkeypatch) == [True]
    assert len(streams.requests) == 1
