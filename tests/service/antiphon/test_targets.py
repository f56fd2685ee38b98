from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import aiohttp
import pytest

from antiphon.parts.store import StorePart
from antiphon.settings import SECTIONS
from antiphon.targets import TARGETS, Process, build, expand
from antiphon_core.config import SettingsError
from antiphon_core.errors import ResponseNotFound, Unauthenticated
from antiphon_core.free_memory import FreeMemory
from antiphon_core.ports.tools import Tools
from antiphon_core.sealing_keys import SealingKeys
from antiphon_edge import server
from antiphon_edge.background import worker
from antiphon_edge.background.worker import Worker
from antiphon_edge.cache_salts import SaltingTranslator
from antiphon_edge.sealed.sealing import Sealer
from antiphon_edge.server import EdgeServer
from antiphon_edge.settings import EdgeSettings, WorkerSettings
from antiphon_store.client import StoreClient
from antiphon_store.service import StoreService
from antiphon_store.settings import StoreSettings
from antiphon_tools.client import ToolsClient
from antiphon_tools.service import ToolService
from antiphon_tools.settings import ToolsSettings
from antiphon_translator.service import TranslatorService
from antiphon_translator.settings import TranslatorSettings
from tests.support.local_settings import settings
from tests.support.waiting import WAIT_MAX_S


def test_targets_are_expanded_and_put_into_starting_order() -> None:
    assert expand(["all"]) == ["store", "translator", "tools", "edge", "worker"]
    assert expand(["edge", "store"]) == ["store", "edge"]


def test_an_unknown_target_is_refused_with_the_known_targets() -> None:
    with pytest.raises(SettingsError, match="no target 'egde'; the targets are store, translator, tools, edge, worker"):
        expand(["egde"])


@pytest.mark.parametrize("target", ["edge", "worker"])
async def test_edge_or_worker_without_store_or_translator_is_refused(target: str) -> None:
    with pytest.raises(SettingsError, match=f"{target} needs a store: .*set ANTIPHON_{target.upper()}_STORE"):
        build([target], Process(settings()))
    with pytest.raises(SettingsError, match=f"{target} needs a translator: .*ANTIPHON_{target.upper()}_TRANSLATOR"):
        build(["store", target], Process(settings()))


async def test_edges_and_workers_salt_the_turns_of_their_tenants(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.touch(mode=0o600)
    keys.write_text(f"1 {'0' * 64}")
    edge = EdgeSettings(cache_salt_keys_file=keys)
    process = Process(settings(edge))
    build(["store", "translator"], process)
    assert isinstance(process.translator_of(edge), SaltingTranslator)
    assert isinstance(process.translator_of(WorkerSettings().beside(edge)), SaltingTranslator)
    assert isinstance(process.translator_of(EdgeSettings()), TranslatorService)


async def test_the_store_of_the_process_is_used_unless_an_endpoint_is_set() -> None:
    process = Process(settings())
    build(["store"], process)
    assert isinstance(process.store_of(process.settings.edge), StoreService)
    elsewhere = Process(settings(EdgeSettings(store="127.0.0.1:1")))
    build(["store"], elsewhere)
    client = elsewhere.store_of(elsewhere.settings.edge)
    assert isinstance(client, StoreClient)
    await client.close()


async def test_tools_come_from_the_endpoint_or_from_this_process_if_it_has_tool_servers() -> None:
    def of(edge: EdgeSettings, tools: ToolsSettings) -> Tools | None:
        process = Process(replace(settings(edge), tools=tools))
        build(["store", "translator", "tools", "edge"], process)
        return process.tools_of(edge)

    none, some = ToolsSettings(port=0), ToolsSettings(port=0, client_hosts=("mcp.example",))
    assert of(EdgeSettings(port=0), none) is None
    assert isinstance(of(EdgeSettings(port=0), some), ToolService)
    assert isinstance(of(EdgeSettings(port=0, tools="h:1"), none), ToolsClient)


async def test_edge_opens_content_sealed_by_the_worker_of_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    sealers: dict[str, Sealer] = {}

    def remember(name: str, module: ModuleType, part: type[EdgeServer] | type[Worker]) -> None:
        def make(*given: Any, sealer: Sealer, **options: Any) -> EdgeServer | Worker:
            sealers[name] = sealer
            return part(*given, sealer=sealer, **options)

        monkeypatch.setattr(module, part.__name__, make)

    remember("edge", server, EdgeServer)
    remember("worker", worker, Worker)
    build(["all"], Process(settings()))
    assert sealers["edge"].open("acme", sealers["worker"].seal("acme", "a thought")) == "a thought"


def test_processes_with_shared_keys_open_each_others_sealed_content() -> None:
    keys = SealingKeys.ephemeral()
    one, other = (Process(settings(), sealing_keys=keys).sealer_of(EdgeSettings()) for _ in range(2))
    assert one.open("acme", other.seal("acme", "a thought")) == "a thought"


async def test_worker_beside_an_edge_uses_the_store_of_the_edge(monkeypatch: pytest.MonkeyPatch) -> None:
    named: list[str] = []
    monkeypatch.setattr(Process, "store_of", lambda _self, given: named.append(given.store))
    build(["translator", "edge", "worker"], Process(settings(EdgeSettings(store="h:1"))))
    assert named == ["h:1", "h:1"]


async def test_processes_with_shared_ports_listen_on_the_same_ports(tmp_path: Path) -> None:
    edge = EdgeSettings(port=0, store="h:1", translator="h:1")
    given = replace(settings(edge), translator=TranslatorSettings(port=0, profiles=tmp_path))
    first = Process(given, shares_ports=True)
    parts = build(["store", "translator", "edge"], first)
    for part in parts:
        await part.start()
    assert first.store is not None
    assert first.translator is not None
    assert first.edge is not None
    ports = [int(address.rpartition(":")[2]) for address in (first.store.address, first.translator.address)]
    same = replace(
        given,
        store=replace(given.store, port=ports[0]),
        translator=replace(given.translator, port=ports[1]),
        edge=replace(edge, port=int(first.edge.url.rpartition(":")[2])),
    )
    others = build(["store", "translator", "edge"], Process(same, shares_ports=True))
    for part in others:
        await part.start()
    for part in (*others, *parts):
        await part.stop()


async def test_store_credentials_and_edge_token_come_from_the_settings(tmp_path: Path) -> None:
    credentials, token = tmp_path / "credentials", tmp_path / "token"
    credentials.write_text("edge token-0123456789abcdef default gateway\n")
    token.write_text("token-0123456789abcdef\n")
    guarded = replace(settings(), store=StoreSettings(url="memory://", port=0, token_file=credentials))
    serving = Process(guarded)
    (part,) = build(["store"], serving)
    await part.start()
    assert isinstance(part, StorePart)
    for edge, outcome in (
        (EdgeSettings(store=part.address, store_token_file=token), ResponseNotFound),
        (EdgeSettings(store=part.address), Unauthenticated),
    ):
        store = Process(settings(edge)).store_of(edge)
        assert isinstance(store, StoreClient)
        with pytest.raises(outcome):
            await store.get("default", "resp_" + "0" * 48)
        await store.close()
    await part.stop()


async def test_unreadable_credentials_are_refused_before_the_start(tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    edge = EdgeSettings(store="h:1", translator="h:2", translator_token_file=gone)
    with pytest.raises(SettingsError, match="Cannot read the token file"):
        Process(settings(edge)).translator_of(edge)
    translator = TranslatorSettings(port=0, profiles=tmp_path, token_file=gone)
    (part,) = build(["translator"], Process(replace(settings(), translator=translator)))
    with pytest.raises(SettingsError, match="Cannot read the credentials file"):
        await part.start()


async def test_warnings_of_all_sections_are_collected() -> None:
    open_door = replace(settings(), edge=EdgeSettings(host="0.0.0.0", insecure=True))
    messages = " ".join(message for message, _ in open_door.warnings())
    assert "not authenticated" in messages
    assert "memory only" in messages
    assert [message for message, _ in open_door.warnings(["translator"])] == []


@pytest.mark.parametrize("target", ["edge", "worker"])
async def test_target_above_its_memory_limit_returns_free_memory(
    target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    returned = asyncio.Event()

    async def give_back(_self: FreeMemory, _is_enough: Callable[[], bool]) -> bool:
        returned.set()
        return True

    monkeypatch.setattr(FreeMemory, "give_back", give_back)
    limited = replace(
        settings(EdgeSettings(port=0, memory_limit_bytes=1)),
        worker=WorkerSettings(memory_limit_bytes=1),
        translator=TranslatorSettings(port=0, profiles=tmp_path),
    )
    process = Process(limited)
    async with AsyncExitStack() as running, asyncio.timeout(WAIT_MAX_S):
        for part in build(["store", "translator", target], process):
            await part.start()
            running.push_async_callback(part.stop)
        if process.edge is not None:
            session = await running.enter_async_context(aiohttp.ClientSession())
            answer = await session.post(process.edge.url + "/v1/responses", json={"model": "m", "input": "hi"})
            assert "short of memory" in await answer.text()
        await returned.wait()


def test_every_target_has_a_section_of_its_name() -> None:
    assert set(TARGETS) <= set(SECTIONS)
