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


def test_a_part_comes_after_what_it_needs_itself_and_once() -> None:
    text = compose("sweep").text
    first_lines = [part.read_text(encoding="utf-8").splitlines()[0] for part in (FOLDER / "parts").iterdir()]
    assert {text.count(line) for line in first_lines} == {0, 1}
    order = [text.index(f"local function {name}(") for name in ("read_clock", "tree_of", "file_end", "unfile", "drop")]
    assert order == sorted(order)


def test_frequent_scripts_are_those_of_writers_and_renewals_and_all_of_them_last() -> None:
    frequent = [compose(name) for name in NAMES if compose(name).is_frequent]
    assert [script.name for script in frequent] == ["append_events", "heartbeat_job", "renew_lease"]
    assert all(script.lasts for script in frequent)  # one WAIT behind a pipeline speaks for every write in it


def test_what_only_reads_says_so() -> None:
    reading = {name for name in NAMES if "no-writes" in compose(name).text.partition("\n")[0]}
    assert {name for name in NAMES if not compose(name).lasts} == reading | {"spend"}
    assert reading == {
        "ancestry",
        "begin_after",
        "children",
        "conversation_items",
        "describe_job",
        "describe_session",
        "fetch",
        "fetch_conversation",
        "fetch_many",
        "find_items",
        "read_log",
        "session_records",
        "siblings",
        "subtree",
        "tenants",
    }


def test_a_script_that_is_not_there_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        compose("no_such_script")


def test_a_part_is_no_script() -> None:
    with pytest.raises(ValueError, match="must begin with '#!lua'"):
        compose("parts/clock")
