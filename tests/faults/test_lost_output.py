"""A process whose standard output and error are on a full disk, closed, or read by nobody serves all the same."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.children import start_child
from tests.support.ports import free_ports
from tests.support.system import STOP_TIMEOUT_S
from tests.support.waiting import with_retries

LOST = re.compile(r"^antiphon_log_lines_lost_total (\d+)", re.MULTILINE)
NOT_YET = (aiohttp.ClientError, OSError, LookupError)
CLOSED = ("sh", "-c", 'exec "$@" >&- 2>&-', "sh")


@contextmanager
def full_disk() -> Iterator[int]:
    full = os.open("/dev/full", os.O_WRONLY)
    yield full
    os.close(full)


@contextmanager
def closed_pipe() -> Iterator[int]:
    reader, writer = os.pipe()
    os.close(reader)
    yield writer
    os.close(writer)


@contextmanager
def unread_pipe() -> Iterator[int]:
    """A pipe that is full after the child has made its buffer as large as it may."""
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 1 << 20)
    fill(writer)
    yield writer
    os.close(reader)
    os.close(writer)


def fill(writer: int) -> None:
    os.set_blocking(writer, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writer, b"." * 4096)
    os.set_blocking(writer, True)


@pytest.mark.parametrize("output", [full_disk, closed_pipe, unread_pipe], ids=lambda each: each.__name__)
async def test_serve_goes_on_and_counts_the_lines_that_it_cannot_write(
    output: Callable[[], AbstractContextManager[int]], tmp_path: Path
) -> None:
    with output() as fd, serving(tmp_path, stdout=fd, stderr=fd) as (process, port):
        await with_retries(lambda: lost_lines(port), NOT_YET)
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_TIMEOUT_S) == 0


async def test_requests_are_answered_after_the_reader_of_the_log_has_stopped_reading(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    (edge,) = free_ports(1)
    away = ("--edge-store=127.0.0.1:1", "--edge-translator=127.0.0.1:1", f"--edge-port={edge}")
    with serving(tmp_path, "edge", *away, stdout=writer, stderr=writer) as (process, port):
        assert os.read(reader, 1)
        fill(writer)
        for _ in range(20):
            assert "release" in await with_retries(lambda: text_of(f"http://127.0.0.1:{edge}/v1/version"), NOT_YET)
        assert await lost_lines(port) >= 20
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_TIMEOUT_S) == 0
    os.close(reader)
    os.close(writer)


@pytest.mark.parametrize("output", [full_disk, closed_pipe, unread_pipe], ids=lambda each: each.__name__)
async def test_workers_start_and_stop_without_standard_error(
    output: Callable[[], AbstractContextManager[int]], tmp_path: Path
) -> None:
    with output() as fd, serving(tmp_path, workers=2, stdout=fd, stderr=fd) as (process, port):
        for each in (port, port + 1):
            await with_retries(partial(metrics_of, each), NOT_YET)
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_TIMEOUT_S) == 0


async def test_no_log_line_is_written_into_a_file_that_got_the_number_of_a_closed_stream(tmp_path: Path) -> None:
    with serving(tmp_path, prefix=CLOSED) as (process, port):
        await with_retries(lambda: metrics_of(port), NOT_YET)
        process.send_signal(signal.SIGTERM)
        assert process.wait(STOP_TIMEOUT_S) == 0
    assert not files_with(b"SIGTERM: draining", tmp_path)


def files_with(text: bytes, folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if text in path.read_bytes()]


@contextmanager
def serving(
    folder: Path,
    target: str = "store",
    *more: str,
    prefix: tuple[str, ...] = (),
    workers: int = 1,
    **streams: Any,
) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Runs a store, or another target with its flags. Yields its process and the port of its metrics."""
    (port,) = free_ports(1, and_above=1)
    flags = (f"--workers={workers}", f"--store-url=sqlite:///{folder / 'store.db'}", f"--metrics-port={port}", *more)
    command = [*prefix, sys.executable, "-m", "antiphon", "serve", f"--target={target}", *flags]
    process = start_child(command, stdin=subprocess.DEVNULL, **streams)
    try:
        yield process, port
    finally:
        process.kill()
        process.wait()


async def metrics_of(port: int) -> str:
    return await text_of(f"http://127.0.0.1:{port}/metrics")


async def text_of(url: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return await answer.text()


async def lost_lines(port: int) -> int:
    """LookupError: no line was lost so far."""
    found = LOST.search(await metrics_of(port))
    if found is None or found[1] == "0":
        raise LookupError
    return int(found[1])
