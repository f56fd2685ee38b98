"""A service of several workers, from its settings to its banner: what is made once for all of them."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon import banner
from antiphon.settings import Settings
from antiphon.workers.messages import Assignment
from antiphon.workers.ports import ReservedPorts
from antiphon.workers.sharing import of_one_worker, require_shareable
from antiphon.workers.supervisor import Supervisor, WorkerFailed
from antiphon_core.clock import SystemClock
from antiphon_core.sealing_keys import SealingKeys

__all__ = ["WorkerFailed", "run"]


async def run(targets: Sequence[str], settings: Settings) -> int:
    """Runs until a signal arrives; the exit status. SettingsError: workers cannot share what the settings say. OSError:
    somebody else has a port. WorkerFailed: a worker could not start."""
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
        return await supervisor.run(lambda ready: print(banner.workers(ready.addresses, count), flush=True))
    finally:
        ports.close()
