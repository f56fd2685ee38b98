"""Runs a service of several workers: makes the ports and keys that they share, their supervisor, and the banner."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon import banner, logs
from antiphon.settings import Settings
from antiphon.workers.messages import Assignment
from antiphon.workers.ports import ReservedPorts
from antiphon.workers.sharing import of_one_worker, require_shareable
from antiphon.workers.supervisor import Supervisor, WorkerFailed
from antiphon_core.clock import SystemClock
from antiphon_core.sealing_keys import SealingKeys

__all__ = ["WorkerFailed", "run"]


async def run(targets: Sequence[str], settings: Settings) -> int:
    """Runs until a signal arrives, and returns the exit status. SettingsError: workers cannot share the store of these
    settings. OSError: a port is in use, or the system starts no process. WorkerFailed: a worker could not start."""
    require_shareable(settings, targets)
    count = settings.serve.workers
    ports = ReservedPorts()
    try:
        assignment = Assignment(
            number=0,
            targets=tuple(targets),
            settings=of_one_worker(ports.reserve(settings, targets)),
            sealing_keys=SealingKeys.ephemeral(),
        )
        supervisor = Supervisor(assignment, count, clock=SystemClock())
        return await supervisor.run(lambda ready: logs.announce(banner.workers(ready.addresses, count)))
    finally:
        ports.close()
