"""The settings of the translator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from antiphon_core import limits
from antiphon_core.rpc.settings import RpcServerSettings


@dataclass(frozen=True, slots=True)
class TranslatorSettings(RpcServerSettings):
    section: ClassVar[str] = "translator"

    port: int = field(default=50052, metadata={"doc": "Port to serve gRPC on; 0 lets the system choose."})
    profiles: Path | None = field(default=None, metadata={"doc": "Directory of model profiles, one TOML file each."})
    probe_ttl_s: float = field(default=2.0, metadata={"doc": "Seconds for which an engine's readiness is remembered."})
    prompt_cache_bytes: int = field(
        default=limits.PROMPT_CACHE_BYTES_DEFAULT,
        metadata={
            "doc": "Bytes that are kept of the ids of earlier prompts of each model, and as many again of the "
            "histories behind them, so that of a chat that grows only what is new is read and encoded. With 0 none "
            "are, and no prompt's time tells of other callers' prompts."
        },
    )
    triton_transport: Literal["lean", "grpc"] = field(
        default="lean",
        metadata={
            "doc": "Client that reads streams of tokens from Triton: Antiphon's own, lean, or grpc, which costs "
            "several times as much for each token."
        },
    )
    generation_s: float = field(
        default=3_600.0,
        metadata={"doc": "Seconds that an engine may take for one generation in all, however steadily it goes on."},
    )
    drain_s: float = field(default=30.0, metadata={"doc": "Seconds that running turns get to end after SIGTERM."})

    media_fetch: bool = field(
        default=True, metadata={"doc": "Whether images and files are fetched from the URLs that requests name."}
    )
    media_hosts: tuple[str, ...] = field(
        default=(),
        metadata={"doc": "Hosts that they may be fetched from, *.example.com for all below one; empty means any."},
    )
    media_http: bool = field(
        default=False, metadata={"doc": "Whether URLs without encryption are fetched, too: http besides https."}
    )
    media_private_addresses: bool = field(
        default=False,
        metadata={"doc": "Whether URLs may lead to this machine and its private network; set media_hosts with it."},
    )
    media_timeout_s: float = field(
        default=20.0, metadata={"doc": "Seconds in which all that a turn names has to be fetched."}
    )

    def warnings(self) -> Iterator[tuple[str, str]]:
        yield from self.access_warnings()
        if self.media_private_addresses and not self.media_hosts:
            yield (
                "media_private_addresses without media_hosts",
                "Whoever may send a request can have any server of the private network asked for a page.",
            )
