"""The store's settings: declared here, loaded by `antiphon_core.config`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from antiphon_core.config import SettingsError
from antiphon_core.rpc.settings import RpcServerSettings

_DAY_S = 24 * 3600
JOB_WEIGHT_MAX = 16  # a tenant of this weight has as many entries in the index of the line


@dataclass(frozen=True, slots=True)
class StoreSettings(RpcServerSettings):
    section: ClassVar[str] = "store"

    port: int = field(default=50051, metadata={"doc": "Port to serve gRPC on; 0 lets the system choose."})
    url: str = field(
        default="memory://",
        metadata={
            "doc": "URL of the database: memory://, sqlite:///FILE (four slashes for an absolute path), redis://HOST, "
            "rediss://HOST, redis+sentinel://HOST,HOST/SERVICE, redis+cluster://HOST,HOST or "
            "postgresql://USER@HOST/DATABASE."
        },
    )
    durability: Literal["memory", "process", "disk", "quorum"] = field(
        default="disk",
        metadata={
            "doc": "What an acknowledged write survives: nothing (memory), the death of the process, power loss "
            "(disk), or the loss of one machine (quorum). The README of each database says which of these it has."
        },
    )
    encryption_keys_file: Path | None = field(
        default=None,
        metadata={
            "doc": "File with the keys that encrypt content before it reaches the database (AES-256-GCM), a line "
            "each: ID and 64 hexadecimal digits. The first key encrypts, every key decrypts. Read again when it "
            "changes. A store that was ever opened with keys does not start without them."
        },
    )
    migrate: bool = field(
        default=True,
        metadata={
            "doc": "Whether a service that starts brings a database's schema up to date. Turn it off where its user "
            "may not change tables, and run 'antiphon store migrate' before each upgrade. A SQLite file is always "
            "brought up to date."
        },
    )
    default_ttl_s: int | None = field(
        default=30 * _DAY_S,
        metadata={
            "doc": "Lifetime of a response whose writer names none; empty means for ever. Responses of a conversation "
            "have max_ttl_s instead, so that it keeps its beginning, and this lifetime from when it is deleted."
        },
    )
    max_ttl_s: int | None = field(
        default=None, metadata={"doc": "Longest lifetime that a writer may ask for; empty means any."}
    )
    max_session_responses: int | None = field(
        default=None,
        metadata={"doc": "The most readable responses that one session may have made; empty means any number."},
    )
    sweep_s: int | None = field(
        default=300,
        metadata={
            "doc": "Seconds between two rounds of sweeping, which reclaims the space of expired data. Every replica "
            "may do it. Empty means never: then call Sweep."
        },
    )
    turn_claim_s: int = field(
        default=600,
        metadata={
            "doc": "How long a turn keeps its idempotency key without committing or renewing its claim, which edges "
            "do once a minute. After that a repeated request runs again."
        },
    )
    lease_poll_ms: int = field(
        default=100,
        metadata={
            "doc": "Polling interval of a call that waits for a session. Releases in the same process wake it at once."
        },
    )
    event_log_ttl_s: int = field(
        default=3600, metadata={"doc": "How long the events of a response are kept after the last of them."}
    )
    event_poll_ms: int = field(
        default=100,
        metadata={
            "doc": "Polling interval of a call that follows events. Events from the same process wake it at once."
        },
    )
    job_ttl_s: int = field(default=_DAY_S, metadata={"doc": "How long a job is remembered after its end."})
    jobs_per_tenant: int = field(
        default=2_000,
        metadata={"doc": "The most background responses that a tenant may have queued or running; 0 for any number."},
    )
    job_weights: tuple[str, ...] = field(
        default=(),
        metadata={
            "doc": "Weights of tenants, whose background responses are served round robin, such as team-a=3,team-b=2. "
            "A tenant that is not named has the weight 1."
        },
    )
    job_poll_ms: int = field(
        default=200,
        metadata={
            "doc": "Polling interval of a call that waits for a job. Jobs from the same process wake it at once."
        },
    )
    queue_watch_s: float = field(
        default=5.0,
        metadata={"doc": "Seconds between two measurements of the queue of background responses, for metrics."},
    )
    drain_s: float = field(default=10.0, metadata={"doc": "Seconds that running calls get to end after SIGTERM."})

    def __post_init__(self) -> None:
        RpcServerSettings.__post_init__(self)
        for name in (
            "default_ttl_s",
            "max_ttl_s",
            "max_session_responses",
            "sweep_s",
            "lease_poll_ms",
            "turn_claim_s",
            "event_log_ttl_s",
            "event_poll_ms",
            "job_ttl_s",
            "job_poll_ms",
        ):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingsError(f"{name} must be at least 1, but is {value}.")
        if self.queue_watch_s <= 0:
            raise SettingsError(f"queue_watch_s must be more than 0, but is {self.queue_watch_s:g}.")
        if self.jobs_per_tenant < 0:
            raise SettingsError(f"jobs_per_tenant must be 0 or more, but is {self.jobs_per_tenant}.")
        for each in self.job_weights:
            name, _, weight = each.partition("=")
            if not (name and weight.isdecimal() and 1 <= int(weight) <= JOB_WEIGHT_MAX):
                raise SettingsError(
                    f"job_weights has {each!r}; an entry is a tenant and 1 to {JOB_WEIGHT_MAX}, such as team-a=3."
                )
        if self.max_ttl_s is not None and (self.default_ttl_s is None or self.default_ttl_s > self.max_ttl_s):
            raise SettingsError("default_ttl_s must not be longer than max_ttl_s.")

    def job_places(self, tenant: str) -> int:
        """The weight of a tenant in the line of background responses."""
        weights = dict(each.split("=") for each in self.job_weights)
        return int(weights.get(tenant, 1))

    def warnings(self) -> Iterator[tuple[str, str]]:
        """Yields a (message, explanation) for each valid but unwise setting."""
        yield from self.access_warnings()
        if self.url.startswith("memory:"):
            yield "Responses are kept in memory only.", "They are gone after a restart. Set url to sqlite:///FILE."
        elif self.durability == "process":
            yield (
                "Acknowledged responses may be lost when the machine loses power.",
                "durability is 'process'; 'disk' waits for the disk and is the default.",
            )
        elif self.durability == "memory":
            yield (
                "Acknowledged responses may be lost when the database is restarted.",
                "durability is 'memory': the database's persistence is not checked. 'disk' is the default.",
            )
