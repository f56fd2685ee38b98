"""Attack 1: calls that announce large messages and stop a byte short. Without a token the server holds nothing beyond
the windows of the streams. With a token it holds at most its budget, and half of the budget for one caller."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc
import pytest
from hyperframe.frame import HeadersFrame

from antiphon_core.limits import RPC_CONNECTION_STREAMS_ITEMS_MAX, RPC_MESSAGE_BYTES_MAX
from antiphon_core.rpc.codec import encode
from antiphon_core.rpc.intake import IntakeLimits
from antiphon_core.rpc.methods import STORE
from antiphon_http2.server.link import ServerLink
from tests.support.grpc_flood import Flood, flood
from tests.support.guarded_store import ATTACKER, GuardedStore, guarded_store
from tests.support.http2_peer import GRPC, Http2Peer, message
from tests.support.waiting import WAIT_MAX_S, until

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


# ---- floods of calls that do not pause ----


def joined_values(number: int) -> tuple[str, str]:
    return ("x-bin", ",".join(["AAAA"] * 380) + f",{number:06d}AA")


CALLER = (("authorization", f"Bearer {ATTACKER}"), ("antiphon-tenant", "acme"))
DESCRIBE = STORE.methods["DescribeSession"]
DESCRIBED = message(encode(DESCRIBE.request, DESCRIBE.request.message(session_id="conv_1")))


def whole_call(client: Http2Peer, number: int, path: str, content: bytes, *more: tuple[str, str]) -> bytes:
    fields = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "host:1"), *GRPC, *more]
    return client.headers(number, fields) + client.data(number, content, ends=True, pad=255)


FLOODS: dict[str, tuple[Callable[[Http2Peer, int], bytes], int]] = {
    "padded health checks": (lambda client, at: whole_call(client, at, CHECK, message(b"")), 800),
    "joined binary values": (lambda client, at: whole_call(client, at, CHECK, message(b""), joined_values(at)), 50),
    "with a token": (lambda client, at: whole_call(client, at, DESCRIBE.path, DESCRIBED, *CALLER), 2_000),
}
"""The calls of each flood, and their number: no more than strangers may make on one connection."""


@pytest.mark.parametrize("kind", FLOODS)
async def test_no_call_of_a_flood_is_begun_between_another_call_and_its_answer(
    served: GuardedStore, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A part of the flood was handled in each iteration of the loop, of which the victim's call takes three or four."""
    client, (make, count) = Http2Peer(is_client=True), FLOODS[kind]
    steps, now_s = list[str](), [time.monotonic()]
    await ask(served)
    monkeypatch.setattr(served.server._server._turns, "now_s", lambda: now_s[0])  # no rest ends by itself
    monkeypatch.setattr(ServerLink, "step", counted(steps))
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    writer.write(client.hello() + b"".join(make(client, at) for at in range(1, 2 * count, 2)))
    await until(lambda: bool(steps), "the flood is read")
    flooding = steps[0]
    for _ in range(3):
        now_s[0] += 10
        await ask(served)
        assert steps[-1] != flooding
    answered = 0
    async with asyncio.timeout(WAIT_MAX_S):
        while answered < count:
            now_s[0] += 10
            frames = client.read(await reader.read(2**16))
            answered += sum(isinstance(frame, HeadersFrame) and "END_STREAM" in frame.flags for frame in frames)
    writer.close()


def counted(steps: list[str]) -> Callable[[ServerLink, bytes], int]:
    """A step of a connection that notes its peer."""
    step = ServerLink.step

    def noted(link: ServerLink, data: bytes) -> int:
        steps.append(link.peer)
        return step(link, data)

    return noted
