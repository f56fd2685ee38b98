"""What an operator can set about the translator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class TranslatorSettings:
    host: str = field(default="127.0.0.1", metadata={"doc": "Address to listen on."})
    port: int = field(default=50052, metadata={"doc": "Port to listen on; 0 lets the system choose."})
    profiles: Path | None = field(default=None, metadata={"doc": "Directory of model profiles, one TOML file each."})
    probe_ttl_s: float = field(default=2.0, metadata={"doc": "Seconds for which an engine's readiness is remembered."})
    drain_s: float = field(default=30.0, metadata={"doc": "Seconds that running turns get to end after SIGTERM."})

    def warnings(self) -> Iterator[tuple[str, str]]:
        if self.host not in ("127.0.0.1", "::1", "localhost"):
            yield (
                f"The translator listens on {self.host}, without encryption or authentication.",
                "Anybody who reaches the port can use the models. Keep it on a network of the cluster's own.",
            )
