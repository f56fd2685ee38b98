from __future__ import annotations

from hashlib import sha1
from importlib.resources import files

import pytest

from antiphon_store.backends.redis import scripts
from antiphon_store.backends.redis.scripts import Script, compose

FOLDER = files("antiphon_store.backends.redis") / "lua"
NAMES = sorted(path.name.removesuffix(".lua") for path in FOLDER.iterdir() if path.name.endswith(".lua"))
HEADER = ("KEYS:", "ARGV:", "Answer:")


@pytest.mark.parametrize("name", NAMES)
def test_every_script_says_what_it_is(name: str) -> None:
    lines = (FOLDER / f"{name}.lua").read_text(encoding="utf-8").splitlines()
    comment = "\n".join(lines[1 : lines.index("")])
    assert all(f"-- {word}" in comment for word in HEADER)
    assert name == "ready" or "-- Indivisible:" in comment


def test_every_script_has_a_name() -> None:
    assert sorted({value.name for value in vars(scripts).values() if isinstance(value, Script)}) == NAMES


def test_the_parts_come_first_and_the_first_line_stays_first() -> None:
    script = compose("subtree", "clock", "rows")
    lines = script.text.splitlines()
    assert lines[0] == "#!lua flags=no-writes"
    assert script.text.index("now_ms") < script.text.index("local root")
    assert script.sha == sha1(script.text.encode()).hexdigest()


def test_what_only_reads_says_so() -> None:
    reading = {name for name in NAMES if "no-writes" in compose(name).text.partition("\n")[0]}
    assert {name for name in NAMES if not compose(name).lasts} == reading
    assert reading == {"page", "subtree"}


def test_a_script_that_is_not_there_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        compose("no_such_script")


def test_flags_stand_in_the_first_line_and_nothing_else_differs() -> None:
    first, _, rest = scripts.TRANSACT_READING.text.partition("\n")
    assert first == "#!lua flags=no-writes"
    assert rest == scripts.TRANSACT.text.partition("\n")[2]
    assert scripts.TRANSACT_READING.sha == sha1(scripts.TRANSACT_READING.text.encode()).hexdigest()


def test_what_only_reads_or_is_volatile_waits_for_no_replica() -> None:
    waiting = {name for name, script in vars(scripts).items() if isinstance(script, Script) and script.lasts}
    assert waiting == {"TRANSACT", "TRANSACT_SMALL", "TAKE_DUE", "ENTRIES", "ANNOUNCE", "READY"}
