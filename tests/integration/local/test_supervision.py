"""The real server is restarted after every way of dying, and leaves nothing behind."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from antiphon_local_triton.process import SHARED_MEMORY
from antiphon_local_triton.supervisor import TritonState, shared_memory_prefix
from tests.support.token_client import TokenClient, TritonFault
from tests.support.triton import COARSE, DIE, FAIL, PACED, READY_TIMEOUT_S, STALL, RunningTriton, triton_server

pytestmark = pytest.mark.asyncio(loop_scope="session")

PROMPT = [11, 12, 13]


async def _state_becomes(server: RunningTriton, state: TritonState) -> None:
    async with asyncio.timeout(READY_TIMEOUT_S):
        while server.local.state is not state:
            await asyncio.sleep(0.02)


def _runs(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    status = Path(f"/proc/{pid}/stat")
    return status.exists() and status.read_text().rpartition(")")[2].split()[0] not in "ZX"


async def _answers(server: RunningTriton) -> list[int]:
    client = TokenClient(server.grpc_address, "paced")
    try:
        return (await client.generate(PROMPT, 4)).ids
    finally:
        await client.close()


async def test_a_stopped_server_leaves_no_process_and_no_shared_memory() -> None:
    async with triton_server(PACED) as server:
        assert await _answers(server) == [11, 12, 13, 11]
        pids, prefix = [server.pid, *server.stub_pids()], shared_memory_prefix(server.log_path.parent)
        assert list(SHARED_MEMORY.glob(f"{prefix}*"))
    assert server.local.state is TritonState.STOPPED
    assert not any(_runs(pid) for pid in pids)
    assert not list(SHARED_MEMORY.glob(f"{prefix}*"))


async def test_a_killed_server_is_started_again_on_the_same_address() -> None:
    async with triton_server(PACED) as server:
        address, pid = server.grpc_address, server.pid
        server.kill()
        await _state_becomes(server, TritonState.RESTARTING)
        assert "killed by signal 9" in server.local.reason
        await server.local.wait_ready(READY_TIMEOUT_S)
        assert (server.grpc_address, server.pid == pid) == (address, False)
        assert await _answers(server) == [11, 12, 13, 11]


async def test_a_killed_stub_means_a_new_server() -> None:
    async with triton_server(PACED) as server:
        [stub] = server.stub_pids()
        os.kill(stub, signal.SIGKILL)
        await _state_becomes(server, TritonState.RESTARTING)
        assert "stub process" in server.local.reason
        await server.local.wait_ready(READY_TIMEOUT_S)
        assert await _answers(server) == [11, 12, 13, 11]


async def test_a_model_that_ends_its_process_means_a_new_server() -> None:
    async with triton_server(PACED, DIE) as server:
        client = TokenClient(server.grpc_address, "die")
        pending = asyncio.create_task(client.generate(PROMPT, 10))
        await _state_becomes(server, TritonState.RESTARTING)
        with pytest.raises(Exception, match="UNAVAILABLE|not healthy|Cancelled"):
            await asyncio.wait_for(pending, READY_TIMEOUT_S)
        await client.close()
        await server.local.wait_ready(READY_TIMEOUT_S)
        assert await _answers(server) == [11, 12, 13, 11]


async def test_scripted_models_do_what_their_names_say() -> None:
    async with triton_server(PACED, STALL, FAIL, COARSE) as server:
        clients = {name: TokenClient(server.grpc_address, name) for name in ("paced", "stall", "fail", "coarse")}
        assert (await clients["coarse"].generate(PROMPT, 6)).per_response == [[11, 12, 13, 11], [12, 13], []]
        assert (await clients["paced"].generate(PROMPT, 6, end_id=13)).ids == [11, 12]
        with pytest.raises(TritonFault, match="fail after 3 tokens"):
            await clients["fail"].generate(PROMPT, 6)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(clients["stall"].generate(PROMPT, 6), 0.5)
        await clients["paced"].cancelled_after(2, PROMPT, 5_000, id="gone")
        assert await server.tokens_when_cancelled("gone") >= 2
        for client in clients.values():
            await client.close()
