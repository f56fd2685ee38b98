from __future__ import annotations

import os
from pathlib import Path

import pytest

from antiphon_core.config import SettingsError
from antiphon_core.errors import Unavailable
from antiphon_core.rpc.watched import LOOK_INTERVAL_S, Watched, read_secret, read_text


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Number:
    """A watched file that holds a number."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = Clock()
        self.reads = 0
        self.path.write_text("1")
        self.watched = Watched([path], self.read, now_s=self.clock)

    def read(self) -> int:
        self.reads += 1
        try:
            return int(read_text(self.path, "the number"))
        except ValueError as error:
            raise SettingsError("not a number") from error

    def after_a_look(self) -> int:
        self.clock.now += LOOK_INTERVAL_S
        return self.watched.get()


@pytest.fixture
def number(tmp_path: Path) -> Number:
    return Number(tmp_path / "number")


def test_a_file_that_does_not_change_is_read_once(number: Number) -> None:
    assert [number.after_a_look() for _ in range(5)] == [1] * 5
    assert number.reads == 1


def test_a_change_is_seen_at_the_next_look_and_not_before(number: Number) -> None:
    number.path.write_text("22")
    assert number.watched.get() == 1
    number.clock.now += LOOK_INTERVAL_S / 2
    assert number.watched.get() == 1
    number.clock.now += LOOK_INTERVAL_S / 2
    assert number.watched.get() == 22


def test_a_broken_change_keeps_the_value_and_is_logged_once(number: Number, caplog: pytest.LogCaptureFixture) -> None:
    number.path.write_text("broken")
    assert [number.after_a_look() for _ in range(3)] == [1, 1, 1]
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert "not a number" in record.message
    assert str(number.path) in record.message
    number.path.write_text("3")
    assert number.after_a_look() == 3


def test_a_file_that_went_away_keeps_the_value(number: Number, caplog: pytest.LogCaptureFixture) -> None:
    number.path.unlink()
    assert number.after_a_look() == 1
    assert "Cannot read the number" in caplog.text
    number.path.write_text("4")
    assert number.after_a_look() == 4


def test_a_replaced_file_of_the_same_size_and_time_is_a_change(number: Number, tmp_path: Path) -> None:
    """Kubernetes replaces files in this way: a symbolic link leads to another folder."""
    before = number.path.stat()
    other = tmp_path / "other"
    other.write_text("5")
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.replace(number.path)
    assert number.after_a_look() == 5


def test_a_file_that_is_broken_from_the_start_is_refused(tmp_path: Path) -> None:
    (tmp_path / "number").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match="Cannot read the number .*number: it is no text"):
        Watched([tmp_path / "number"], lambda: read_text(tmp_path / "number", "the number"))
    with pytest.raises(SettingsError, match="Cannot read the number .*gone: No such file"):
        Watched([tmp_path / "gone"], lambda: read_text(tmp_path / "gone", "the number"))


def test_after_the_grace_a_file_that_went_away_gives_no_value(number: Number) -> None:
    guarded = Watched([number.path], number.read, setting="a", grace_s=10.0, now_s=number.clock)
    number.path.unlink()
    number.clock.now += LOOK_INTERVAL_S
    assert guarded.get() == 1
    number.clock.now += 10.0
    with pytest.raises(Unavailable):
        guarded.get()
    number.path.write_text("6")
    number.clock.now += LOOK_INTERVAL_S
    assert guarded.get() == 6


def test_the_grace_begins_with_the_first_unusable_state(number: Number) -> None:
    guarded = Watched([number.path], number.read, grace_s=10.0, now_s=number.clock)
    for text in ("broken", "still broken", "broken in another way"):
        number.path.write_text(text)
        number.clock.now += 4.0
        if number.clock.now < 110.0:
            assert guarded.get() == 1
    number.clock.now += 4.0
    with pytest.raises(Unavailable):
        guarded.get()


@pytest.mark.parametrize(("mode", "is_read"), [(0o600, True), (0o440, True), (0o604, False), (0o620, False)])
def test_a_secret_is_read_where_others_may_not_read_or_change_it(tmp_path: Path, mode: int, is_read: bool) -> None:
    path = tmp_path / "secret"
    path.write_text("x")
    path.chmod(mode)
    if is_read:
        assert read_secret(path, "the secret") == "x"
    else:
        with pytest.raises(SettingsError, match="other users"):
            read_secret(path, "the secret")
