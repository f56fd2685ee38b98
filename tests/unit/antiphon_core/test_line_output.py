from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from antiphon_core import line_output
from antiphon_core.line_output import LineFile, LineOutput

LONG = b"x" * 10_000


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe()
    yield reader, writer
    os.close(reader)
    os.close(writer)


def fill(writer: int) -> None:
    """Fills a pipe until a write of one byte would wait."""
    os.set_blocking(writer, False)
    for size in (4096, 1):
        try:
            while True:
                os.write(writer, b"." * size)
        except BlockingIOError:
            pass
    os.set_blocking(writer, True)


def test_lines_of_any_length_go_to_a_pipe(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    output = LineOutput(writer)
    for line in (b"short", LONG, b""):
        output.write(line)
    assert os.read(reader, 100_000) == b"short\n" + LONG + b"\n\n"


def test_write_to_a_pipe_that_is_not_read_waits_once_and_then_fails_at_once(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    reader, writer = pipe
    now_s = [100.0]
    output = LineOutput(writer, now_s=lambda: now_s[0])
    fill(writer)
    waits: list[int] = []
    output._room = Room(output._room, waits)  # type: ignore[assignment]
    for _ in range(50):
        with pytest.raises(BlockingIOError, match="does not read"):
            output.write(b"line")
    assert [each for each in waits if each] == [line_output.WAIT_MS]
    now_s[0] += line_output.WAIT_INTERVAL_S
    with pytest.raises(BlockingIOError):
        output.write(b"line")
    assert [each for each in waits if each] == [line_output.WAIT_MS] * 2
    os.read(reader, line_output.PIPE_BYTES)
    output.write(b"line")
    assert os.read(reader, 100) == b"line\n"


class Room:
    """A poll object that waits no time, and records how long it was asked to wait."""

    def __init__(self, poll: object, waits: list[int]) -> None:
        self._poll = poll
        self._waits = waits

    def poll(self, timeout_ms: int) -> object:
        self._waits.append(timeout_ms)
        return self._poll.poll(0)  # type: ignore[attr-defined]


def test_line_that_was_written_in_part_is_ended_before_the_next_one(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, line_output.PIPE_BYTES)
    output = LineOutput(writer)
    with pytest.raises(BlockingIOError):
        output.write(b"x" * (line_output.PIPE_BYTES + 1))
    torn = os.read(reader, line_output.PIPE_BYTES)
    output.write(b"whole")
    assert torn.count(b"\n") == 0
    assert os.read(reader, 100) == b"\nwhole\n"


def test_write_to_a_closed_pipe_or_descriptor_raises() -> None:
    reader, writer = os.pipe()
    output = LineOutput(writer)
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        output.write(b"line")
    os.close(writer)
    with pytest.raises(OSError, match="Bad file descriptor"):
        output.write(b"line")


def test_file_that_was_moved_or_deleted_is_created_again(tmp_path: Path) -> None:
    path = tmp_path / "log"
    file = LineFile(path)
    file.write(b"1")
    path.rename(tmp_path / "log.1")
    file.write(b"2")
    path.unlink()
    file.write(b"3")
    assert (path.read_bytes(), (tmp_path / "log.1").read_bytes()) == (b"3\n", b"1\n")
    assert file.mode == 0o600
    file.close()


def test_lines_go_to_the_moved_file_while_no_new_one_can_be_created(tmp_path: Path) -> None:
    folder, moved = tmp_path / "logs", tmp_path / "moved"
    folder.mkdir()
    file = LineFile(folder / "log")
    folder.rename(moved)
    file.write(b"1")
    assert (moved / "log").read_bytes() == b"1\n"
    (moved / "log").unlink()
    with pytest.raises(FileNotFoundError):
        file.write(b"lost, and said so")
    folder.mkdir()
    file.write(b"2")
    assert (folder / "log").read_bytes() == b"2\n"
    file.close()


def test_fifo_without_room_fails_and_works_again_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "fifo"
    os.mkfifo(path)
    with pytest.raises(OSError, match="No such device"):
        LineFile(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    file = LineFile(path)
    with pytest.raises(BlockingIOError):
        file.write(b"x" * (2 * line_output.PIPE_BYTES))
    os.close(reader)
    with pytest.raises(BrokenPipeError):
        file.write(b"lost")
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.read(reader, line_output.PIPE_BYTES)
    file.write(b"line")
    assert os.read(reader, 100) == b"\nline\n"
    os.close(reader)
    file.close()
