from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from antiphon.parts.tools import ToolsPart
from antiphon_core.clock import SystemClock
from antiphon_core.config import SettingsError
from antiphon_core.errors import InvalidRequest
from antiphon_core.ports.tools import ToolServer
from antiphon_tools.client import ToolsClient
from antiphon_tools.settings import ToolsSettings
from tests.support.local_settings import settings


async def test_the_part_serves_tools_until_it_stops() -> None:
    part = ToolsPart(settings(), SystemClock())
    await part.start()
    client = ToolsClient(part.address)
    await client.ready()
    with pytest.raises(InvalidRequest, match="There is no tool server 'github' here"):
        await client.list_tools("acme", ToolServer("github"))
    assert part.running == 0
    await client.close()
    await part.stop()


async def test_a_file_of_servers_with_a_mistake_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "mcp.toml").write_text("[servers.a]\nurl = 'https://a.example'\naproval = 'always'\n")
    given = replace(settings(), tools=ToolsSettings(port=0, servers=tmp_path / "mcp.toml"))
    with pytest.raises(SettingsError, match="has no 'aproval'"):
        ToolsPart(given, SystemClock())
