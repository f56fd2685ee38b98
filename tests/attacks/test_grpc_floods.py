"""Attack 1: calls that announce large messages and stop a byte short. Without a token the server holds nothing beyond
the windows of the streams. With a token it holds at most its budget, and half of the budget for one caller."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import grpc
import pytest

from antiphon_core.limits import RPC_CONNECTION_STREAMS_ITEMS_MAX, RPC_MESSAGE_BYTES_MAX
from antiphon_core.rpc.intake import IntakeLimits
from antiphon_core.rpc.methods import STORE
from tests.support.grpc_flood import Flood, flood
from tests.support.guarded_store import ATTACKER, GuardedStore, guarded_store
from tests.support.waiting import until

MIB = 2**20
CALLS = 20
ANNOUNCED = 47 * MIB
WINDOWS = CALLS * 2**17
PUT = STORE.methods["PutResponseRecord"].path
CHECK = "/grpc.health.v1.Health/Check"
REFLECTION = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
UNAUTHENTICATED, UNAVAILABLE = (
    str(code.value[0]) for code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNAVAILABLE)
)
LIMITS = IntakeLimits(bytes_max=4 * RPC_MESSAGE_BYTES_MAX, caller_bytes_max=2 * RPC_MESSAGE_BYTES_MAX)


async def ask(store: GuardedStore) -> None:
    """Sends a request of the victim, which must be answered within the deadline of its method."""
    sent = STORE.methods["DescribeSession"].request.message(session_id="conv_1")
    await store.victim.call("DescribeSession", sent, tenant="globex")


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[GuardedStore]:
    async with guarded_store(tmp_path / "credentials", LIMITS, role="writer") as store:
        yield store


async def attack(opened: Flood, path: str, *metadata: tuple[str, str]) -> None:
    for _ in range(CALLS):
        opened.call(path, ANNOUNCED, metadata)
    await opened.send_all()


@pytest.mark.parametrize("path", [PUT, REFLECTION])
@pytest.mark.parametrize("metadata", [(), (("authorization", "Bearer wrong"),)], ids=["no token", "wrong token"])
async def test_calls_without_a_valid_token_are_rejected_within_stream_windows(
    served: GuardedStore, path: str, metadata: tuple[tuple[str, str], ...]
) -> None:
    async with flood(served.port) as opened:
        await attack(opened, path, *metadata)
        assert opened.statuses == {UNAUTHENTICATED}
        assert sum(each.taken for each in opened.sendings.values()) < WINDOWS
        await ask(served)


async def test_large_health_requests_are_rejected_as_unavailable(served: GuardedStore) -> None:
    async with flood(served.port) as opened:
        await attack(opened, CHECK)
        await opened.all_ended()
        assert opened.statuses == {UNAVAILABLE}
        await ask(served)


async def test_an_authenticated_flood_holds_at_most_its_share_of_the_budget(served: GuardedStore) -> None:
    async with flood(served.port) as opened:
        await attack(opened, PUT, ("authorization", f"Bearer {ATTACKER}"), ("antiphon-tenant", "acme"))
        held = [each for each in opened.sendings.values() if each.status is None]
        assert len(held) <= LIMITS.caller_bytes_max // RPC_MESSAGE_BYTES_MAX
        assert opened.statuses <= {UNAVAILABLE, None}
        assert opened.taken <= LIMITS.caller_bytes_max
        await ask(served)


async def test_the_budget_is_released_when_the_attacker_disconnects(served: GuardedStore) -> None:
    budget = served.server._intake.budget
    async with flood(served.port) as opened:
        await attack(opened, PUT, ("authorization", f"Bearer {ATTACKER}"), ("antiphon-tenant", "acme"))
        assert not budget.is_unused
    await until(lambda: budget.is_unused, "the budget is given back")


@pytest.mark.parametrize("metadata", [(), (("authorization", b"Bearer secret-\xff"),)], ids=["no token", "no text"])
async def test_calls_without_a_valid_token_are_logged_once_and_without_it(
    served: GuardedStore, metadata: tuple[tuple[str, str], ...], caplog: pytest.LogCaptureFixture
) -> None:
    """Each such call wrote a line, or four tracebacks with the metadata in them: 1 MB/s, from anybody."""
    async with flood(served.port) as opened:
        for _ in range(50):
            opened.ask(PUT, b"", metadata)
        await opened.all_ended()
        assert opened.statuses == {UNAUTHENTICATED}
    assert 0 < len(caplog.records) <= 2
    assert "secret" not in caplog.text
    assert "Traceback" not in caplog.text


async def test_the_server_announces_its_limit_of_streams_per_connection(served: GuardedStore) -> None:
    async with flood(served.port) as opened:
        await until(lambda: opened.streams_max is not None, "the server's settings")
        assert opened.streams_max == RPC_CONNECTION_STREAMS_ITEMS_MAX
