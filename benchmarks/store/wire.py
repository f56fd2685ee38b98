"""Measures the overhead of gRPC over a store in memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import grpc

from antiphon_core.limits import RPC_MESSAGE_BYTES_MAX
from antiphon_store.client import StoreClient
from benchmarks.store.operations import CHAINS, FORKS, Results, measure, print_results
from benchmarks.store.raw.grpc import BareGrpc, bare_server
from benchmarks.store.sides import Port
from benchmarks.store.subjects import CHAIN_RECORDS, LONG_LINE, long_line
from tests.support.system import Command

NAMES = ("put", "get", *CHAINS.values(), FORKS[1_000], "turn")


async def bench_wire(round_s: float) -> None:
    with _store_server() as address, bare_server() as bare_address:
        results = await _client(address, bare_address, round_s)
    print_results("The client of a service in another process, over gRPC", results, ratio="x bare gRPC")


async def _client(address: str, bare_address: str, round_s: float) -> Results:
    options = [("grpc.max_receive_message_length", RPC_MESSAGE_BYTES_MAX)]
    async with StoreClient(address) as client, grpc.aio.insecure_channel(bare_address, options) as channel:
        store = Port(client)
        await store.fill(LONG_LINE, long_line()[:CHAIN_RECORDS])
        return await measure(store, BareGrpc(channel), NAMES, round_s=round_s)


@contextmanager
def _store_server() -> Iterator[str]:
    """Runs `antiphon serve --target=store` and yields its address."""
    command = Command("serve", "--target=store", "--store-port=0", "--store-url=memory://")
    try:
        yield command.wait_for(r"^store +(\S+:\d+)")[1]
    finally:
        command.stop()
