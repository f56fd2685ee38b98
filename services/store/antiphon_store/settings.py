"""The store's settings: declared here, loaded by `antiphon_core.config`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from antiphon_core.config import Port, SettingsError, setting
from antiphon_core.rpc.settings import RpcServerSettings

_DAY_S = 24 * 3600
JOB_WEIGHT_MAX = 16  # a weight is the number of a tenant's places in the line (decisions/tenant_line.py)


@dataclass(frozen=True, slots=True)
class StoreSettings(RpcServerSettings):
    section: ClassVar[str] = "store"

    port: Port = setting(50051, "Port to serve gRPC on; 0 lets the system choose.")
    url: str = setting(
        "memory://",
        "URL of the database: memory://, sqlite:///FILE (four slashes for an absolute path), redis://HOST, "
        "rediss://HOST, redis+sentinel://HOST,HOST/SERVICE, redis+cluster://HOST,HOST or "
        "postgresql://USER@HOST/DATABASE.",
    )
    durability: Literal["memory", "process", "disk", "quorum"] = setting(
        "disk",
        "What an acknowledged write survives: nothing (memory), the death of the process, power loss "
        "(disk), or the loss of one machine (quorum). The README of each database says which of these it has.",
    )
    encryption_keys_file: Path | None = setting(
        None,
        "File with the keys that encrypt content before it reaches the database (AES-256-GCM), a line "
        "each: ID and 64 hexadecimal digits. The first key encrypts, every key decrypts. Read again when it "
        "changes. A store that was ever opened with keys does not start without them.",
    )
    migrate: bool = setting(
        True,
        "Whether a service that starts brings a database's schema up to date. Turn it off where its user "
        "may not change tables, and run 'antiphon store migrate' before each upgrade. A SQLite file is always "
        "brought up to date.",
    )
    default_ttl_s: int | None = setting(
        30 * _DAY_S,
        "Lifetime of a response whose writer gives none; empty means for ever. Responses of a conversation have "
        "max_ttl_s instead, so that the conversation keeps its beginning. If max_ttl_s is empty, they get "
        "default_ttl_s when the conversation is deleted.",
        least=1,
    )
    max_ttl_s: int | None = setting(None, "Longest lifetime that a writer may ask for; empty means any.", least=1)
    max_session_responses: int | None = setting(
        None, "Limit of the readable responses that were made in one session; empty means no limit.", least=1
    )
    sweep_s: int | None = setting(
        300,
        "Seconds between two rounds of sweeping, which reclaims the space of expired data. It may be on in every "
        "replica. Empty turns it off: then call the RPC Sweep.",
        least=1,
    )
    turn_claim_s: int = setting(
        600,
        "Seconds that a turn keeps its idempotency key without committing or renewing its claim. Edges renew the "
        "claim once a minute. Afterwards a repeated request runs again.",
        least=1,
    )
    lease_poll_ms: int = setting(
        100,
        "Milliseconds between two polls of a call that waits for a session. A release in the same process wakes the "
        "call at once.",
        least=1,
    )
    event_log_ttl_s: int = setting(
        3600, "Seconds that the events of a response are kept after the last event.", least=1
    )
    event_poll_ms: int = setting(
        100,
        "Milliseconds between two polls of a followed event log, and one for each log if that is more. Events from the "
        "same process are passed on at once.",
        least=1,
    )
    job_ttl_s: int = setting(_DAY_S, "Seconds that a job is kept after its end.", least=1)
    jobs_per_tenant: int = setting(
        2_000, "Limit of the background responses that a tenant has queued or running; 0 means no limit.", least=0
    )
    job_weights: tuple[str, ...] = setting(
        (),
        "Weights of tenants in the round robin that serves background responses, such as team-a=3,team-b=2. A tenant "
        "that is not named has the weight 1.",
    )
    job_poll_ms: int = setting(
        200,
        "Milliseconds between two polls of a call that waits for a job. Jobs from the same process wake the call at "
        "once.",
        least=1,
    )
    queue_watch_s: float = setting(
        5.0, "Seconds between two measurements of the queue of background responses, for metrics.", least=0.01
    )
    drain_s: float = setting(10.0, "Seconds that running calls get to end after SIGTERM.")

    def __post_init__(self) -> None:
        RpcServerSettings.__post_init__(self)
        for each in self.job_weights:
            name, _, weight = each.partition("=")
            if not (name and weight.isdecimal() and 1 <= int(weight) <= JOB_WEIGHT_MAX):
                raise SettingsError(
                    f"job_weights has {each!r}; an entry is a tenant and 1 to {JOB_WEIGHT_MAX}, such as team-a=3."
                )
        if self.max_ttl_s is not None and (self.default_ttl_s is None or self.default_ttl_s > self.max_ttl_s):
            raise SettingsError("default_ttl_s must not be longer than max_ttl_s.")

    def job_weight(self, tenant: str) -> int:
        """The weight of a tenant in the round robin of background responses."""
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
