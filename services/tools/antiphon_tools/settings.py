"""The settings of the tools service."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from antiphon_core.config import Port, setting
from antiphon_core.rpc.settings import RpcServerSettings


@dataclass(frozen=True, slots=True)
class ToolsSettings(RpcServerSettings):
    section: ClassVar[str] = "tools"

    port: Port = field(default=50053, metadata={"doc": "Port to serve gRPC on; 0 lets the system choose."})
    servers: Path | None = setting(
        None,
        "File of the operator's tool servers (TOML), which requests name by their server_label alone. Read again when "
        "it changes, or a file that it names. docs/howto/use-tools.md describes it.",
    )
    client_hosts: tuple[str, ...] = setting(
        (),
        "Hosts of tool servers that requests may name by server_url; *.example.com for all subdomains of one, * for "
        "any host of the public internet. Empty means none.",
    )
    client_http: bool = setting(
        False, "Whether tool servers that requests name are connected to over http, too: without encryption."
    )
    client_private_addresses: bool = setting(
        False, "Whether tool servers that requests name may be on this machine and its private networks."
    )
    wire_bytes: int = setting(
        2**20, "Bytes of one answer of a tool server, and of one event in it. A longer answer is an error.", least=1_024
    )
    text_bytes: int = setting(
        64 * 2**10,
        "Bytes of a result that the model reads. Of a longer one it reads the first three quarters of this size, the "
        "end, and a note that says how much is left out.",
        least=1_024,
    )
    call_s: float = setting(60.0, "Timeout of one call of a tool, in seconds, unless the file of servers says another.")
    calls_per_tenant: int = setting(
        32, "Calls and listings of one tenant that run at once in this process; further ones wait.", least=1
    )
    listing_ttl_s: float = setting(
        300.0, "Seconds for which the tools of a server are remembered, unless the server says a shorter time."
    )
    web_search: str = setting(
        "",
        "How the web is searched: searxng, brave, tavily or exa; mcp: and the name of a tool server whose only tool "
        "searches; empty for no search.",
    )
    web_search_url: str = setting(
        "", "URL of the search provider; needed for searxng, such as http://searxng:8080/search."
    )
    web_search_secret_file: Path | None = setting(
        None, "File with the key of the search provider. Read again when it changes."
    )
    drain_s: float = field(default=30.0, metadata={"doc": "Seconds that running calls get to end after SIGTERM."})

    @property
    def has_servers(self) -> bool:
        """Whether there are tool servers that requests can use, or a search of the web."""
        return self.servers is not None or bool(self.client_hosts) or bool(self.web_search)

    def warnings(self) -> Iterator[tuple[str, str]]:
        yield from self.access_warnings()
        if self.client_private_addresses and "*" in self.client_hosts:
            yield (
                "client_private_addresses with client_hosts = *",
                "Every client can make this service send requests to any server of its private networks. List the "
                "hosts in client_hosts.",
            )
