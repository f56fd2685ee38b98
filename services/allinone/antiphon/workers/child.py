"""The main function of a worker process: runs the targets of its assignment, on ports that all workers share.

Its standard output is the pipe to the supervisor. Anything else that is printed goes to standard error.
"""

from __future__ import annotations

import logging
import os
import sys
import traceback
from functools import partial

from antiphon import banner, event_loop, lifecycle, logs, stop_notice, stop_signals
from antiphon.mistakes import MISTAKES, explain
from antiphon.targets import Process, build
from antiphon.workers.messages import Assignment, Failed, Ready
from antiphon_core.telemetry import remedies

log = logging.getLogger(__name__)


def main() -> int:
    """Runs the worker and returns the exit status. A start that fails is reported to the supervisor and not printed,
    because all workers would print the same."""
    stop_signals.end_at_once_on_any()
    reports = os.dup(sys.stdout.fileno())
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    assignment = Assignment.read(sys.stdin.buffer)
    logs.configure(assignment.settings.log, worker=assignment.number)
    worker = _Worker(assignment, reports)
    try:
        event_loop.run(worker.run())
    except MISTAKES as error:
        return worker.fail(*explain(error))
    except Exception:  # noqa: BLE001 - the process ends, and the supervisor logs the report
        return worker.fail(f"A worker failed.\n{traceback.format_exc()}", 1)
    return 0


class _Worker:
    def __init__(self, assignment: Assignment, reports: int) -> None:
        self._assignment = assignment
        self._reports = reports
        self._is_ready = False

    async def run(self) -> None:
        given = self._assignment
        process = Process(given.settings, shares_ports=True, number=given.number, sealing_keys=given.sealing_keys)
        with lifecycle.building():
            parts = build(given.targets, process)
        await lifecycle.run(
            parts,
            on_started=lambda: self._report_ready(process),
            on_signal=partial(stop_notice.log_signal, process),
            drain_time=process.drain_time,
        )

    def fail(self, message: str, status: int) -> int:
        if self._is_ready:
            log.error("the worker failed: %s", message, extra=remedies.CHECK_WORKER)
        else:
            self._report(Failed(message, status))
        return status

    def _report_ready(self, process: Process) -> None:
        self._is_ready = True
        self._report(Ready(banner.addresses(process)))

    def _report(self, report: Ready | Failed) -> None:
        with os.fdopen(self._reports, "wb") as pipe:
            pipe.write(report.line())


if __name__ == "__main__":
    sys.exit(main())
