from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from tests.support.children import start_child
from tests.support.waiting import WAIT_MAX_S

IMPORTING = """
import os, sys
from antiphon import stop_signals
stop_signals.end_at_once_on_any()
os.kill(os.getpid(), int(sys.argv[1]))
"""
BUSY = """
import asyncio, os, sys
from antiphon import stop_signals

def block(number):
    os.kill(os.getpid(), int(sys.argv[1]))
    while True:
        pass

async def main():
    with stop_signals.handle_stop_signals(block):
        os.kill(os.getpid(), int(sys.argv[1]))
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("program", [IMPORTING, BUSY])
def test_signal_before_the_start_or_during_a_drain_ends_the_process_without_a_traceback(
    program: str, number: signal.Signals
) -> None:
    child = start_child([sys.executable, "-c", program, str(int(number))], stderr=subprocess.PIPE)
    _, printed = child.communicate(timeout=WAIT_MAX_S)
    assert (child.returncode, printed) == (-number, b"")
