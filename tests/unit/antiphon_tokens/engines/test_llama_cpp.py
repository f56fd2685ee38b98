"""The bookkeeping of the engine on llama.cpp. Real runs: tests/contract/engine and tests/integration/local."""

from typing import Any

import pytest

from antiphon_tokens.engine import LoadError
from antiphon_tokens.engines import llama_cpp
from antiphon_tokens.engines.llama_cpp import Run, Slot
from antiphon_tokens.generation import Generation, Sampling


def run_of(generated: list[int], **changes: Any) -> Run:
    settings: dict[str, Any] = {"prompt": [1, 2, 3], "tokens_max": 9, "end_id": 2, **changes}
    listener: Any = None
    return Run(Generation(**settings), listener, None, generated=generated)


@pytest.mark.parametrize(
    ("generated", "banned"),
    [([], {2, 9}), ([5], {2, 9, 6}), ([5, 5], {9, 6}), ([5, 6], {9})],
)
def test_the_end_id_before_min_tokens_and_bad_words_are_banned(generated: list[int], banned: set[int]) -> None:
    sampling = Sampling(min_tokens=2, bad_words=((9,), (5, 6)))
    assert run_of(generated, sampling=sampling).banned_ids() == banned


def test_without_an_end_id_nothing_is_banned_for_min_tokens() -> None:
    assert run_of([], end_id=None, sampling=Sampling(min_tokens=5)).banned_ids() == frozenset()


@pytest.mark.parametrize(
    ("cached", "salt", "shared"),
    [
        ([], "a", 0),
        ([1, 2], "a", 2),
        ([1, 2, 3, 4], "a", 2),
        ([1, 7], "a", 1),
        ([1, 2], "b", 0),
        ([1, 2], None, 0),
    ],
)
def test_slot_shares_the_prompt_before_its_last_id_with_requests_of_its_salt(
    cached: list[int], salt: str | None, shared: int
) -> None:
    assert Slot(0, cached=cached, salt=salt).shared_tokens(run_of([], cache_salt="a").generation) == shared


def test_ids_left_to_decode_are_those_behind_the_cache() -> None:
    assert Slot(0, cached=[1]).pending(run_of([7])) == [2, 3, 7]
    assert Slot(0, cached=[1, 2, 3, 7]).pending(run_of([7, 8])) == [8]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "model must be a text"),
        ({"model": "a.gguf", "slots": 0}, "slots must be a positive number, and is 0"),
        ({"model": "a.gguf", "slotz": 1}, "the engine llama_cpp has no argument 'slotz'"),
    ],
)
def test_wrong_argument_is_refused_before_the_file_is_loaded(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(LoadError, match=message):
        llama_cpp.load(arguments, frozenset())
