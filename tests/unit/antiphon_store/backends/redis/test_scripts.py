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
def test_every_script_documents_its_keys_arguments_and_answer(name: str) -> None:
    lines = (FOLDER / f"{name}.lua").read_text(encoding="utf-8").splitlines()
    comment = "\n".join(lines[1 : lines.index("")])
    assert all(f"-- {word}" in comment for word in HEADER)
    assert name == "ready" or "-- Indivisible:" in comment


def test_every_script_file_is_declared_as_a_script() -> None:
    assert sorted({value.name for value in vars(scripts).values() if isinstance(value, Script)}) == NAMES


def test_a_composed_script_has_its_header_before_its_parts_and_its_body() -> None:
    script = compose("subtree", "clock", "rows")
    lines = script.text.splitlines()
    assert lines[0] == "#!lua flags=no-writes"
    assert script.text.index("now_ms") < script.text.index("local root")
    assert script.sha == sha1(script.text.encode()).hexdigest()


def test_exactly_the_reading_scripts_are_flagged_no_writes() -> None:
    reading = {name for name in NAMES if "no-writes" in compose(name).text.partition("\n")[0]}
    assert {name for name in NAMES if not compose(name).is_durable} == reading
    assert reading == {"page", "children", "subtree", "ancestors"}


def test_composing_an_unknown_script_raises_file_not_found() -> None:
    with pytest.raises(FileNotFoundError):
        compose("no_such_script")


def test_the_reading_variant_of_a_script_differs_in_its_flags_only() -> None:
    first, _, rest = scripts.TRANSACT_READING.text.partition("\n")
    assert first == "#!lua flags=no-writes"
    assert rest == scripts.TRANSACT.text.partition("\n")[2]
    assert scripts.TRANSACT_READING.sha == sha1(scripts.TRANSACT_READING.text.encode()).hexdigest()


def test_only_scripts_with_lasting_writes_wait_for_replicas() -> None:
    waiting = {name for name, script in vars(scripts).items() if isinstance(script, Script) and script.is_durable}
    assert waiting == {"TRANSACT", "TRANSACT_SMALL", "TAKE_DUE", "ENTRIES", "ANNOUNCE", "READY"}
