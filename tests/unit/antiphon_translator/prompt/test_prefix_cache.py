from __future__ import annotations

from array import array

from antiphon_translator.prompt.prefix_cache import NODE_BYTES, OUTPUTS_MAX, Found, Output, PrefixCache


def test_least_recently_used_entry_is_evicted() -> None:
    cache = PrefixCache(3 * (NODE_BYTES + 8))
    for digest in (b"1", b"2", b"3"):
        cache.keep(digest, b"", [1, 2])
    cache.find([b"1"])
    cache.keep(b"4", b"", [1, 2])
    assert [cache.find([digest]) is not None for digest in (b"1", b"2", b"3", b"4")] == [True, False, True, True]
    assert cache.bytes == 3 * (NODE_BYTES + 8)


def test_entry_without_its_parent_is_not_found_until_it_is_stored_again() -> None:
    cache = PrefixCache(2 * (NODE_BYTES + 8))
    cache.keep(b"1", b"", [1])
    cache.keep(b"2", b"1", [2])
    assert cache.find([b"2", b"1"]) == Found(0, array("i", [1, 2]), ())
    cache.find([b"1"])
    cache.keep(b"3", b"", [3])  # evicts node 2, which was used before its parent
    assert cache.find([b"2", b"1"]) == Found(1, array("i", [1]), ())
    cache.keep(b"2", b"1", [2])
    assert cache.find([b"2"]) == Found(0, array("i", [1, 2]), ())


def test_cache_stays_within_its_byte_limit() -> None:
    cache = PrefixCache(2_000)
    for number in range(100):
        cache.keep(str(number).encode(), b"", range(number))
        assert cache.bytes <= 2_000
    cache.keep(b"too much", b"", range(1_000))
    assert cache.find([b"too much"]) is None
    cache.keep(b"99", b"", range(9))
    assert cache.bytes == sum(each.size for each in cache._nodes.values())


def output(*ids: int) -> Output:
    return Output("assistant", array("i", ids))


def outputs_of(cache: PrefixCache, digest: bytes) -> list[Output]:
    found = cache.find([digest])
    return list(found.outputs) if found is not None else []


def test_the_newest_outputs_of_a_node_are_kept_once_each() -> None:
    cache = PrefixCache(10_000)
    cache.keep(b"1", b"", [1])
    for number in (1, 2, 3, 2, 4, 5):
        cache.keep_output(b"1", output(number))
    assert outputs_of(cache, b"1") == [output(number) for number in (3, 2, 4, 5)][-OUTPUTS_MAX:]


def test_an_output_lives_and_dies_with_its_node() -> None:
    cache = PrefixCache(NODE_BYTES + 400)
    cache.keep_output(b"1", output(7))  # there is no such node
    cache.keep(b"1", b"", [1])
    assert outputs_of(cache, b"1") == []
    cache.keep_output(b"1", output(7))
    cache.keep(b"1", b"", [1])  # encoded once more, by another thread
    assert outputs_of(cache, b"1") == [output(7)]
    assert cache.bytes == sum(each.size for each in cache._nodes.values())
    cache.keep(b"2", b"", [2])
    assert outputs_of(cache, b"1") == []


def test_an_output_larger_than_the_cache_is_not_kept() -> None:
    cache = PrefixCache(2_000)
    cache.keep(b"1", b"", [1])
    cache.keep_output(b"1", output(*range(1_000)))
    assert outputs_of(cache, b"1") == []
    assert cache.bytes <= 2_000
