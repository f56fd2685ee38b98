"""The store's settings: declared here, loaded by `antiphon_core.config`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

from antiphon_core.config import SettingsError

_DAY_S = 24 * 3600


@dataclass(frozen=True, slots=True)
class StoreSettings:
    url: str = field(
        default="memory://",
        metadata={"doc": "Where the data lives: memory:// or sqlite:///FILE (four slashes for an absolute path)."},
    )
    durability: Literal["process", "disk"] = field(
        default="disk",
        metadata={
            "doc": "What an acknowledged write survives, on engines that write to disk: the death of the process, "
            "or power loss as well."
        },
    )
    default_ttl_s: int | None = field(
        default=30 * _DAY_S,
        metadata={"doc": "Lifetime of a response whose writer names none; empty means for ever."},
    )
    max_ttl_s: int | None = field(
        default=None, metadata={"doc": "Longest lifetime that a writer may ask for; empty means any."}
    )
    lease_poll_ms: int = field(
        default=100,
        metadata={
            "doc": "How often a call that waits for a session looks again. Releases in the same process "
            "wake it at once."
        },
    )
    host: str = field(default="127.0.0.1", metadata={"doc": "Address to serve gRPC on."})
    port: int = field(default=50051, metadata={"doc": "Port to serve gRPC on; 0 lets the system choose."})

    drain_s: float = field(default=10.0, metadata={"doc": "Seconds that running calls get to end after SIGTERM."})

    def __post_init__(self) -> None:
        for name in ("default_ttl_s", "max_ttl_s", "lease_poll_ms"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingsError(f"{name} must be at least 1, but is {value}.")
        if self.max_ttl_s is not None and (self.default_ttl_s is None or self.default_ttl_s > self.max_ttl_s):
            raise SettingsError("default_ttl_s must not be longer than max_ttl_s.")

    def warnings(self) -> Iterator[tuple[str, str]]:
        """What is legal and unwise: (message, explanation)."""
        if self.url.startswith("memory:"):
            yield "Responses are kept in memory only.", "They are gone after a restart. Set url to sqlite:///FILE."
        elif self.durability == "process":
            yield (
                "Acknowledged responses may be lost when the machine loses power.",
                "durability is 'process'; 'disk' waits for the disk and is the default.",
            )
