from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from antiphon_core.jsons import dumps, loads
from antiphon_translator.conversation import KnownMessages, Message
from antiphon_translator.prompt.read_history import FORKS_MAX, MESSAGE_BYTES, NOTHING_READ, HistoryCache, ReadHistory

FIRST = {"id": "msg_" + "0" * 100, "text": "a"}
"""An item longer than the prefix that identifies a chat."""


def history(*texts: str) -> bytes:
    return dumps([FIRST, *({"text": text} for text in texts)])


def read(json: bytes) -> ReadHistory:
    items = loads(json)
    return ReadHistory(json[:-1], len(items), messages=KnownMessages([Message("user", ("a",)) for _ in items]))


def cache(*kept: bytes, most_bytes: int = 10**6) -> HistoryCache:
    made = HistoryCache(most_bytes)
    for each in kept:
        made.keep(read(each))
    return made


def test_history_that_grew_is_known_up_to_its_new_items() -> None:
    known = cache(history("b")).find(history("b", "c", "d"))
    assert known.items == 2
    assert loads(known.rest(history("b", "c", "d"))) == [{"text": "c"}, {"text": "d"}]


def test_a_history_that_did_not_grow_has_no_rest() -> None:
    known = cache(history("b")).find(history("b"))
    assert known.items == 2
    assert known.rest(history("b")) == b"[]"


def test_unknown_history_is_read_as_a_whole() -> None:
    assert cache().find(history("b")) is NOTHING_READ
    assert NOTHING_READ.rest(history("b")) == history("b")


@pytest.mark.parametrize(
    "other",
    [history("B", "c"), history("c"), history("bc"), history(), dumps([{"text": "b"}]), b"[]"],
    ids=["changed", "deleted", "longer item", "shorter history", "first item deleted", "empty"],
)
def test_a_history_with_other_items_is_unknown(other: bytes) -> None:
    assert cache(history("b", "c")).find(other) is NOTHING_READ


def test_number_that_goes_on_is_not_taken_for_a_known_item() -> None:
    made = HistoryCache(10**6)
    made.keep(ReadHistory(b"[" + b"1" * 100, 1))
    assert made.find(b"[" + b"1" * 100 + b"2]") is NOTHING_READ
    assert made.find(b"[" + b"1" * 100 + b",2]").items == 1


def test_forks_of_a_chat_are_kept_beside_each_other() -> None:
    made = cache(history("b", "c"), history("b", "d"))
    assert made.find(history("b", "c", "e")).items == made.find(history("b", "d", "e")).items == 3


def test_longer_history_replaces_its_prefix() -> None:
    made = cache(history("b"), history("b", "c"))
    assert made.find(history("b", "c")).items == 3
    assert made.find(history("b", "d")) is NOTHING_READ
    assert made.bytes == read(history("b", "c")).size


def test_oldest_fork_over_the_fork_limit_is_evicted() -> None:
    forks = [history(str(number)) for number in range(FORKS_MAX + 1)]
    made = cache(*forks)
    assert [made.find(each).items for each in forks] == [0] + [2] * FORKS_MAX
    assert made.bytes == FORKS_MAX * read(forks[0]).size


def test_least_recently_used_chat_is_evicted() -> None:
    chats = [dumps([{"id": f"{number}" * 100}]) for number in range(3)]
    made = cache(*chats[:2], most_bytes=2 * read(chats[0]).size)
    made.find(chats[0])
    made.keep(read(chats[2]))
    assert [made.find(each).items for each in chats] == [1, 0, 1]
    assert made.bytes == 2 * read(chats[0]).size


def test_history_over_the_size_limit_is_not_cached() -> None:
    assert cache(history("b"), most_bytes=0).bytes == 0
    assert cache(history("b"), most_bytes=read(history("b")).size - 1).bytes == 0


def test_size_of_a_history_counts_its_messages() -> None:
    assert read(history("b")).size == 2 * (len(history("b")) - 1) + 2 * MESSAGE_BYTES


def test_threads_share_the_history_cache() -> None:
    made = HistoryCache(20_000)

    def grow(chat: int) -> bool:
        json = b"[" + dumps({"id": f"{chat:0100}"}) + b"]"
        for number in range(20):
            known = made.find(json)
            assert known.items + len(loads(known.rest(json))) == number + 1
            made.keep(read(json))
            json = json[:-1] + b",%d]" % number
        return made.bytes <= 20_000

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(grow, range(40)))
