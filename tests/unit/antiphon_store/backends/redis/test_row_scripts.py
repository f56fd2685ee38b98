from __future__ import annotations

from hashlib import sha1

from antiphon_store.backends.redis import row_scripts
from antiphon_store.backends.redis.scripts import Script


def test_scripts_are_named_by_their_texts() -> None:
    for script in vars(row_scripts).values():
        if isinstance(script, Script):
            assert script.sha == sha1(script.text.encode()).hexdigest()


def test_flags_stand_in_the_first_line_and_nothing_else_differs() -> None:
    first, _, rest = row_scripts.TRANSACT_READING.text.partition("\n")
    assert first == "#!lua flags=no-writes"
    assert rest == row_scripts.TRANSACT.text.partition("\n")[2]


def test_what_only_reads_or_is_volatile_waits_for_no_replica() -> None:
    waiting = {name for name, script in vars(row_scripts).items() if isinstance(script, Script) and script.lasts}
    assert waiting == {"TRANSACT", "TRANSACT_SMALL", "TAKE_DUE", "ENTRIES"}
