"""The settings of the translator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from antiphon_core import limits
from antiphon_core.config import Port, setting
from antiphon_core.rpc.settings import RpcServerSettings


@dataclass(frozen=True, slots=True)
class TranslatorSettings(RpcServerSettings):
    section: ClassVar[str] = "translator"

    port: Port = field(default=50052, metadata={"doc": "Port to serve gRPC on; 0 lets the system choose."})
    profiles: Path | None = field(default=None, metadata={"doc": "Directory of model profiles, one TOML file each."})
    probe_ttl_s: float = field(default=2.0, metadata={"doc": "Seconds for which an engine's readiness is remembered."})
    prompt_cache_bytes: int = field(
        default=limits.PROMPT_CACHE_BYTES_DEFAULT,
        metadata={
            "doc": "Bytes of token ids of earlier prompts that are cached for each model, and as many again of their "
            "parsed histories, so that only the new part of a growing chat is parsed and encoded. The memory of a "
            "translator rises until both are full. 0 for no cache: the time that a prompt takes then reveals nothing "
            "about other callers' prompts."
        },
    )
    triton_transport: Literal["lean", "grpc"] = field(
        default="lean",
        metadata={
            "doc": "Client library for streams of tokens from Triton: lean, which is Antiphon's own, or grpc, which "
            "costs several times as much for each token."
        },
    )
    translators: int = setting(
        1,
        "Translators that serve the same models. Each sees its own part of the load of an endpoint, and takes the "
        "others to have sent as much.",
        least=1,
    )
    generation_s: float = field(
        default=3_600.0,
        metadata={"doc": "Timeout of one whole generation, in seconds, also while the engine still sends tokens."},
    )
    turns_bytes_max: int = setting(
        0,
        "Bytes of requests with their histories, and of fetched images and files, that turns in progress may hold in "
        "one process, which takes about three times as much memory for them. A tenant may have four times what is "
        "still free. 0 for a tenth of the container's or machine's memory.",
        least=0,
    )
    drain_s: float = field(default=30.0, metadata={"doc": "Seconds that running turns get to end after SIGTERM."})

    media_fetch: bool = field(
        default=True, metadata={"doc": "Whether images and files are fetched from the URLs that requests name."}
    )
    media_hosts: tuple[str, ...] = field(
        default=(),
        metadata={
            "doc": "Hosts that images and files may be fetched from; *.example.com for all subdomains of one. Empty "
            "means any host."
        },
    )
    media_http: bool = field(
        default=False, metadata={"doc": "Whether images and files are fetched over http, too: without encryption."}
    )
    media_private_addresses: bool = field(
        default=False,
        metadata={
            "doc": "Whether images and files may be fetched from this machine and its private networks; set "
            "media_hosts with it."
        },
    )
    media_timeout_s: float = field(
        default=20.0, metadata={"doc": "Timeout for fetching all images and files of one turn, in seconds."}
    )

    def warnings(self) -> Iterator[tuple[str, str]]:
        yield from self.access_warnings()
        if self.media_private_addresses and not self.media_hosts:
            yield (
                "media_private_addresses without media_hosts",
                "Every client can make the translator send GET requests to any server of its private networks. List "
                "the hosts that it may fetch from in media_hosts.",
            )
