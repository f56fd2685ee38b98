from __future__ import annotations

from antiphon_tools.settings import ToolsSettings


def test_any_client_host_on_private_networks_is_warned_about() -> None:
    everywhere = ToolsSettings(client_hosts=("*",), client_private_addresses=True)
    assert len(list(everywhere.warnings())) == 1
    assert not list(ToolsSettings(client_hosts=("mcp.local",), client_private_addresses=True).warnings())
    assert not list(ToolsSettings(client_hosts=("*",)).warnings())
