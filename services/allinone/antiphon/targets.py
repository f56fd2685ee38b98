"""The table of targets that a process can run; `all` is a list of them.

The part of a target starts its service and its sockets. Targets call each other through ports (antiphon_core.ports). A
target that needs the store or the translator gets a client if its settings name an endpoint, or else the service of
this process.

A target is imported when it is built, so that a store does not load tokenizers, and an edge no database drivers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from antiphon import otlp
from antiphon.lifecycle import Group, Part
from antiphon.settings import Settings
from antiphon_core.clock import Clock, SystemClock
from antiphon_core.config import SettingsError
from antiphon_core.drain_time import DrainTime
from antiphon_core.ids import Ids, RandomIds
from antiphon_core.telemetry import tenants

if TYPE_CHECKING:
    from antiphon.parts.store import StorePart
    from antiphon.parts.tools import ToolsPart
    from antiphon.parts.translator import TranslatorPart
    from antiphon_core.ports.full_store import FullStore
    from antiphon_core.ports.tools import Tools
    from antiphon_core.ports.translator import Translator
    from antiphon_core.sealing_keys import SealingKeys
    from antiphon_core.telemetry.exposition import Exposition
    from antiphon_edge.background.worker import Worker
    from antiphon_edge.sealed.sealing import Sealer
    from antiphon_edge.server import EdgeServer
    from antiphon_edge.settings import EdgeSettings, WorkerSettings


@dataclass
class Process:
    """One process: its settings, and the parts of its targets. A target is built from those before it."""

    settings: Settings
    clock: Clock = field(default_factory=SystemClock)
    ids: Ids = field(default_factory=RandomIds)
    shares_ports: bool = False
    """Whether other processes listen on the same network ports."""
    number: int | None = None
    """The number of this process, from 1, if several processes run the same targets."""
    sealing_keys: SealingKeys | None = None
    """Sealing keys for targets without a file of keys, if several processes share them."""
    store: StorePart | None = None
    translator: TranslatorPart | None = None
    tools: ToolsPart | None = None
    edge: EdgeServer | None = None
    worker: Worker | None = None
    targets: list[str] = field(default_factory=list)
    """The names of the targets, set by `build`."""

    @cached_property
    def drain_time(self) -> DrainTime:
        """The time since a signal ended this process."""
        return DrainTime(self.clock)

    @cached_property
    def exposition(self) -> Exposition:
        """The metrics of all targets of this process."""
        from antiphon_core.telemetry.exposition import Exposition

        return Exposition(self.targets, worker=self.number)

    @cached_property
    def own_keys(self) -> SealingKeys:
        """The sealing keys of targets without a file of keys. The targets of a process share them, so that the edge can
        open content that the worker sealed."""
        from antiphon_core.sealing_keys import SealingKeys

        return self.sealing_keys or SealingKeys.ephemeral()

    def sealer_of(self, settings: EdgeSettings | WorkerSettings) -> Sealer:
        from antiphon_edge.sealed.sealing import Sealer

        path, ttl_s = settings.sealing_keys_file, settings.sealed_ttl_s
        if path is None:
            return Sealer(self.own_keys, ttl_s=ttl_s, clock=self.clock)
        setting = f"{settings.SECTION}.sealing_keys_file"
        return Sealer.of(path, ttl_s=ttl_s, clock=self.clock, grace_s=settings.secrets_grace_s, setting=setting)

    def store_of(self, settings: EdgeSettings | WorkerSettings) -> FullStore:
        """A client of the store that these settings name, or the store of this process. SettingsError: there is
        none."""
        if settings.store:
            from antiphon_store.client import StoreClient

            credentials = settings.credentials_for("store")
            return StoreClient(settings.store, credentials=credentials)
        if self.store is None:
            raise _missing("store", settings)
        return self.store.service

    def translator_of(self, settings: EdgeSettings | WorkerSettings) -> Translator:
        """The translator of these settings, which gets the salts of tenants with their turns. SettingsError: there is
        none, or the file of their keys cannot be used."""
        from antiphon_edge.cache_salts import CacheSalts, SaltingTranslator

        translator, path = self._translator_of(settings), settings.cache_salt_keys_file
        if path is None:
            return translator
        setting = f"{settings.SECTION}.cache_salt_keys_file"
        return SaltingTranslator(translator, CacheSalts.of(path, grace_s=settings.secrets_grace_s, setting=setting))

    def _translator_of(self, settings: EdgeSettings | WorkerSettings) -> Translator:
        """A client of the translator that these settings name, or the translator of this process. SettingsError: there
        is none."""
        if settings.translator:
            from antiphon_translator.client import TranslatorClient

            return TranslatorClient(
                settings.translator,
                credentials=settings.credentials_for("translator"),
                silence_s=settings.translator_silence_s,
                wait_s=settings.restart_wait_s,
            )
        if self.translator is None:
            raise _missing("translator", settings)
        return self.translator.service

    def tools_of(self, settings: EdgeSettings | WorkerSettings) -> Tools | None:
        """A client of the tools service that these settings name, or that of this process, if it has tool servers."""
        if settings.tools:
            from antiphon_tools.client import ToolsClient

            return ToolsClient(settings.tools, credentials=settings.credentials_for("tools"))
        if self.tools is None or not self.settings.tools.has_servers:
            return None
        return self.tools.service


def _missing(peer: str, settings: EdgeSettings | WorkerSettings) -> SettingsError:
    article = "An" if settings.SECTION == "edge" else "A"
    return SettingsError(
        f"{article} {settings.SECTION} needs a {peer}: run the target '{peer}' too, or set {settings.variable(peer)}."
    )


def _store(process: Process) -> Part:
    from antiphon.parts.store import StorePart

    process.store = StorePart(
        process.settings, process.clock, shares_port=process.shares_ports, drain_time=process.drain_time
    )
    return process.store


def _translator(process: Process) -> Part:
    from antiphon.parts.translator import TranslatorPart

    process.translator = TranslatorPart(
        process.settings, process.clock, shares_port=process.shares_ports, drain_time=process.drain_time
    )
    return process.translator


def _tools(process: Process) -> Part:
    from antiphon.parts.tools import ToolsPart

    process.tools = ToolsPart(
        process.settings, process.clock, shares_port=process.shares_ports, drain_time=process.drain_time
    )
    return process.tools


def _edge(process: Process) -> Part:
    from antiphon_edge.server import EdgeServer

    settings = process.settings.edge
    process.edge = EdgeServer(
        settings,
        process.store_of(settings),
        process.translator_of(settings),
        clock=process.clock,
        ids=process.ids,
        sealer=process.sealer_of(settings),
        shares_port=process.shares_ports,
        exposition=process.exposition,
        opens_metrics=process.settings.metrics.open,
        drain_time=process.drain_time,
        tools=process.tools_of(settings),
    )
    return process.edge


def _worker(process: Process) -> Part:
    from antiphon_core.process_load import ProcessLoad
    from antiphon_edge.background.worker import Worker

    settings = process.settings.worker
    if process.edge is not None:
        settings = settings.beside(process.settings.edge)
    process.worker = Worker(
        settings,
        process.store_of(settings),
        process.translator_of(settings),
        clock=process.clock,
        ids=process.ids,
        sealer=process.sealer_of(settings),
        load=ProcessLoad(memory_limit_bytes=settings.memory_limit_bytes),
        drain_time=process.drain_time,
        tools=process.tools_of(settings),
    )
    return process.worker


# In the order of starting: a target comes after those that it needs.
TARGETS: dict[str, Callable[[Process], Part]] = {
    "store": _store,
    "translator": _translator,
    "tools": _tools,
    "edge": _edge,
    "worker": _worker,
}
_RUNNERS = frozenset({"edge", "worker"})
"""The targets that run turns."""
GROUPS: dict[str, tuple[str, ...]] = {"all": tuple(TARGETS)}


def expand(names: Iterable[str]) -> list[str]:
    """Replaces groups by their targets, and sorts the targets in the order of starting. SettingsError: there is no such
    target."""
    wanted: set[str] = set()
    for name in names:
        if name not in TARGETS and name not in GROUPS:
            raise SettingsError(f"There is no target '{name}'; the targets are {', '.join([*TARGETS, *GROUPS])}.")
        wanted.update(GROUPS.get(name, (name,)))
    return [name for name in TARGETS if name in wanted]


def build(names: Iterable[str], process: Process) -> list[Part]:
    """Builds the parts of the named targets, in the order of starting. Each part is connected to the parts before it.
    Those that run turns stop at the same time, before those that they call. The telemetry of the process is the first
    part, if the settings or the environment turn it on. Call this inside the event loop."""
    process.targets = expand(names)
    parts = {name: TARGETS[name](process) for name in process.targets}
    runners = [part for name, part in parts.items() if name in _RUNNERS]
    called = [part for name, part in parts.items() if name not in _RUNNERS]
    return [*_telemetry(process), *called, *([Group(runners)] if runners else [])]


def _telemetry(process: Process) -> list[Part]:
    tenants.PROCESS.allow(process.settings.metrics.tenants)
    if process.settings.metrics.port is None and not otlp.is_wanted(os.environ):
        return []
    from antiphon.parts.telemetry import TelemetryPart

    return [TelemetryPart(process.settings.metrics, process.exposition, process.targets, number=process.number)]
