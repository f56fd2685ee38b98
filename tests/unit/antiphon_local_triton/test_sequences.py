"""The rules of one generation inside the packaged model."""

from types import ModuleType
from typing import Any

import pytest

from tests.support.packaged_model import packaged


@pytest.fixture(scope="module")
def sequences() -> ModuleType:
    return packaged("sequences")


def _sequence(module: ModuleType, generated: list[int], **changes: Any) -> Any:
    sampling = module.Sampling(**changes.pop("sampling", {}))
    settings = {"tokens_max": 100, "end_id": 2, "stop_words": (), "want_log_probs": False, **changes}
    return module.Sequence(
        prompt=[1],
        sampling=sampling,
        on_token=lambda *_: None,
        on_end=lambda _: None,
        is_cancelled=lambda: False,
        generated=generated,
        **settings,
    )


@pytest.mark.parametrize(
    ("generated", "finished"),
    [([5, 6], False), ([5, 6, 7], True), ([7], False), ([6, 7, 8], False), ([9], True), ([1, 1, 1, 1], True)],
)
def test_generation_ends_at_a_stop_word_or_the_token_limit(
    sequences: ModuleType, generated: list[int], finished: bool
) -> None:
    assert _sequence(sequences, generated, stop_words=((6, 7), (9,)), tokens_max=4).is_finished() is finished


@pytest.mark.parametrize(
    ("generated", "banned"),
    [([], {2, 9}), ([5], {2, 9, 6}), ([5, 5], {9, 6}), ([5, 6], {9})],
)
def test_the_end_id_before_min_tokens_and_bad_words_are_banned(
    sequences: ModuleType, generated: list[int], banned: set[int]
) -> None:
    sampling = {"min_tokens": 2, "bad_words": ((9,), (5, 6))}
    assert _sequence(sequences, generated, sampling=sampling).banned_ids() == banned


def test_without_an_end_id_nothing_is_banned_for_min_tokens(sequences: ModuleType) -> None:
    assert _sequence(sequences, [], end_id=-1, sampling={"min_tokens": 5}).banned_ids() == frozenset()


@pytest.mark.parametrize(
    ("settings", "greedy"),
    [
        ({}, True),
        ({"temperature": 0.7}, True),
        ({"temperature": 0.0, "top_p": 0.9}, True),
        ({"top_k": 1, "top_p": 0.9}, True),
        ({"top_p": 0.9}, False),
        ({"top_k": 40}, False),
    ],
)
def test_greedy_sampling_follows_the_rules_of_tensorrt_llm(
    sequences: ModuleType, settings: dict[str, float], greedy: bool
) -> None:
    assert sequences.Sampling(**settings).is_greedy is greedy
