"""What an operator can set about the translator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

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
            "doc": "Bytes of ids that are kept of earlier prompts of each model, so that of a chat that grows only "
            "what is new is encoded. With 0 none are, and no prompt's time tells of other callers' prompts."
        },
    )
    drain_s: float = field(default=30.0, metadata={"doc": "Seconds that running turns get to end after SIGTERM."})

    def warnings(self) -> Iterator[tuple[str, str]]:
        yield from self.door_warnings()
