"""Settings of a process on this machine with free ports and a store in memory."""

from __future__ import annotations

from antiphon.logs import LogSettings
from antiphon.settings import Settings
from antiphon_edge.settings import EdgeSettings, WorkerSettings
from antiphon_store.settings import StoreSettings
from antiphon_tools.settings import ToolsSettings
from antiphon_translator.settings import TranslatorSettings


def settings(edge: EdgeSettings | None = None) -> Settings:
    return Settings(
        edge=edge or EdgeSettings(port=0),
        worker=WorkerSettings(),
        translator=TranslatorSettings(port=0),
        store=StoreSettings(url="memory://", port=0),
        log=LogSettings(),
        tools=ToolsSettings(port=0),
    )
