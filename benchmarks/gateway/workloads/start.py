"""Measures starts: commands that only print, and an edge until it listens."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Sequence

from benchmarks.gateway.bench import Bench
from benchmarks.gateway.processes import cpu_s
from benchmarks.gateway.subjects import Column
from tests.support.ports import HOST, free_ports
from tests.support.system import Command

ROUNDS = 3


async def start(bench: Bench) -> None:
    if bench.graphs is not None:
        bench.graphs.record_command("antiphon-version", _command("version"))
        return
    if Column.ONE in bench.columns:
        bench.board.put("start-version", Column.ONE, min(_command_cpu_s("version") for _ in range(ROUNDS)))
        bench.board.put("start-help", Column.ONE, min(_command_cpu_s("--help") for _ in range(ROUNDS)))
    if Column.SPLIT in bench.columns:
        bench.board.put("start-edge", Column.SPLIT, min(_edge_cpu_s() for _ in range(ROUNDS)))


def _command(argument: str) -> Sequence[str]:
    return [sys.executable, "-m", "antiphon", argument]


def _command_cpu_s(argument: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(_command(argument), check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _edge_cpu_s() -> float:
    """Measures an edge until it listens, which needs neither its store nor its translator."""
    store, translator = free_ports(2)
    where = (f"--edge-store={HOST}:{store}", f"--edge-translator={HOST}:{translator}")
    command = Command("serve", "--target=edge", "--edge-port=0", *where)
    try:
        command.wait_for(r"^edge +http")
        return cpu_s(command.process.pid)
    finally:
        command.stop()
