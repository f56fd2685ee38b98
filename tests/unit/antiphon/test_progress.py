from __future__ import annotations

from io import StringIO

from antiphon.progress import QUIET_S, REFRESH_S, ProgressLine
from antiphon_core.clock import ManualClock


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def lines(stream: StringIO) -> list[str]:
    return [each.strip() for each in stream.getvalue().split("\r") if each.strip()]


def line_on(stream: StringIO, clock: ManualClock) -> ProgressLine:
    return ProgressLine("rows", stream=stream, now_s=lambda: clock.now_ms() / 1000)


def test_long_work_refreshes_its_count_on_a_terminal_at_intervals() -> None:
    terminal, clock = Terminal(), ManualClock()
    progress = line_on(terminal, clock)
    progress(900)
    assert lines(terminal) == []
    clock.advance(QUIET_S)
    progress(100)
    progress(1)
    clock.advance(REFRESH_S)
    progress(1)
    assert lines(terminal) == ["1,000 rows", "1,002 rows"]


def test_end_erases_the_progress_line() -> None:
    terminal, clock = Terminal(), ManualClock()
    progress = line_on(terminal, clock)
    clock.advance(QUIET_S)
    progress(7)
    progress.end()
    assert terminal.getvalue().endswith("7 rows\r      \r")


def test_no_progress_is_written_to_a_file() -> None:
    file, clock = StringIO(), ManualClock()
    progress = line_on(file, clock)
    clock.advance(QUIET_S)
    progress(7)
    progress.end()
    assert file.getvalue() == ""
