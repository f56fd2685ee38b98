from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.support.children import start_child
from tests.support.waiting import WAIT_MAX_S

DRAINING = """
import asyncio, os, signal, sys
from antiphon import event_loop
from antiphon.lifecycle import run

class Part:
    name = "part"

    async def start(self): ...

    async def stop(self):
        os.kill(os.getpid(), int(sys.argv[1]))
        await asyncio.sleep(1)  # the signal ends the process before

event_loop.run(run([Part()], on_started=lambda: os.kill(os.getpid(), signal.SIGTERM)))
"""


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_of_either_kind_ends_the_drain_at_once(second: signal.Signals) -> None:
    child = start_child([sys.executable, "-c", DRAINING, str(int(second))], stderr=subprocess.DEVNULL)
    assert child.wait(WAIT_MAX_S) == -second
