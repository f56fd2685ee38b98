from __future__ import annotations

from hashlib import sha1
from importlib.resources import files

import pytest

from antiphon_store.backends.redis import scripts
from antiphon_store.backends.redis.scripts import Script, compose

FOLDER = files("antiphon_store.backends.redis") / "lua"
NAMES = sorted(path.name.removesuffix(".lua") for path in FOLDER.iterdir() if path.name.endswith(".lua"))
HEADER = ("needs:", "KEYS:", "ARGV:", "Answer:")


@pytest.mark.parametrize("name", NAMES)
def test_every_script_says_what_it_is(name: str) -> None:
    lines = (FOLDER / f"{name}.lua").read_text(encoding="utf-8").splitlines()
    comment = "\n".join(lines[1 : lines.index("")])
    assert all(f"-- {word}" in comment for word in HEADER)
    assert name == "ready" or "-- Indivisible:" in comment


def test_every_script_has_a_name_here() -> None:
    named = [value.name for value in vars(scripts).values() if isinstance(value, Script)]
    assert sorted(named) == NAMES


def test_the_parts_come_first_and_the_first_line_stays_first() -> None:
    script = compose("fetch")
    lines = script.text.splitlines()
    assert lines[0] == "#!lua flags=no-writes"
    assert script.text.index("local function read_clock") < script.text.index("local function find(")
    assert script.sha == sha1(script.text.encode()).hexdigest()


def test_what_only_reads_says_so() -> None:
    reading = {name for name in NAMES if not compose(name).writes}
    assert reading == {
        "fetch",
        "ancestry",
        "begin_after",
        "describe_session",
        "read_log",
        "subtree",
        "children",
        "siblings",
    }


def test_a_script_that_is_not_there_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        compose("no_such_script")


def test_a_part_is_no_script() -> None:
    with pytest.raises(ValueError, match="must begin with '#!lua'"):
        compose("parts/clock")
