from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.ids import SequentialIds
from antiphon_core.jsons import Object, dumps
from antiphon_core.ports.translator import Turn
from antiphon_translator.engines.scripted import ALL_CONTROLS
from antiphon_translator.generation import RETENTION, RetentionRange
from antiphon_translator.models.retained_shares import CHUNK_TOKENS, RetainedShares
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.turn.cache_retention import (
    BREAKPOINTS_MAX,
    LOW,
    LOW_OUTPUT,
    MISSES_MAX,
    NORMAL,
    PINNED,
    RETAINED,
    Hint,
    Layer,
    Outcome,
    Share,
    breakpoints,
    ranges_of,
)
from antiphon_translator.turn.turn_plan import TurnPlan
from tests.support.served_models import message, model, turn

HALF_HOUR_MS, TWELVE_HOURS_MS, DAY_MS = 1_800_000, 43_200_000, 86_400_000
ABLE = ALL_CONTROLS | {RETENTION}
TOOL: Object = {"type": "function", "name": "look_up", "parameters": {"type": "object"}}
LONG = "A sentence that takes some tokens. " * 20


def planned(
    served: ServedModel,
    asked: Turn,
    controls: frozenset[str] = ABLE,
    share: Share | None = None,
) -> TurnPlan:
    made = TurnPlan.of(served, asked, controls=controls, ids=SequentialIds())
    return made.with_hints(asked, controls, share or RetainedShares(0).of("a"))


def plan(
    *texts: str,
    served: ServedModel | None = None,
    controls: frozenset[str] = ABLE,
    may_retain: bool = True,
    parts: list[Object] | None = None,
    **request: Any,
) -> TurnPlan:
    asked = turn(*texts or ("Hi",), **request)
    if parts is not None:
        asked = replace(asked, input=dumps([message("user") | {"content": parts}]))
    return planned(served or model(), asked, controls, RetainedShares(100_000 if may_retain else 0).of("a"))


def ranges(made: TurnPlan) -> list[tuple[int, int | None, int, int | None]]:
    retention = made.request.retention
    assert retention is not None
    return [(each.start, each.end, each.priority, each.duration_ms) for each in retention.ranges]


@pytest.mark.parametrize(
    ("request_", "is_low"),
    [
        ({"store": False}, True),
        ({"background": True}, True),
        ({"prompt_cache_options": {"mode": "explicit"}}, True),
        ({}, False),
        ({"store": False, "prompt_cache_key": "k"}, False),
        ({"store": False, "conversation": {"id": "conv_1"}}, False),
        ({"store": False, "tools": [TOOL]}, False),
        ({"store": False, "include": ["reasoning.encrypted_content"]}, False),
        ({"store": False, "history": [message("user", "Hi"), message("assistant", "Ho")]}, False),
    ],
)
def test_only_a_turn_that_nothing_continues_leaves_the_cache_first(request_: dict[str, Any], is_low: bool) -> None:
    made = plan(**request_)
    if is_low:
        assert ranges(made)[-1] == (ranges(made)[-1][0], None, LOW, None)
        assert made.request.retention is not None
        assert made.request.retention.output_priority == LOW_OUTPUT
        assert made.cache.outcomes == [(Hint.LOW, Outcome.SENT)]
    else:
        assert (made.request.retention, list(made.cache.outcomes)) == (None, [])


def test_resent_conversation_is_no_one_shot() -> None:
    asked = turn("Why?", store=False)
    asked = replace(asked, input=dumps([message("user", "Hi"), message("assistant", "Ho"), message("user", "Why?")]))
    assert planned(model(), asked).request.retention is None


def test_profile_can_leave_one_shots_at_the_priority_of_all() -> None:
    assert plan(served=model(demotes_one_shots=False), store=False).request.retention is None


def test_system_message_of_a_one_shot_keeps_its_priority() -> None:
    made = plan(store=False, instructions=LONG)
    assert made.request.root is not None
    assert ranges(made) == [(0, made.request.root.tokens, NORMAL, None), (made.request.root.tokens, None, LOW, None)]


@pytest.mark.parametrize(
    ("request_", "duration_ms"),
    [
        ({"prompt_cache_options": {"ttl": "30m"}}, HALF_HOUR_MS),
        ({"prompt_cache_options": {"ttl": "12h"}, "store": False}, TWELVE_HOURS_MS),
        ({"prompt_cache_retention": "24h"}, DAY_MS),
    ],
)
def test_lifetime_holds_for_the_whole_prompt_and_is_told_back(request_: dict[str, Any], duration_ms: int) -> None:
    made = plan(**request_)
    assert ranges(made) == [(0, None, RETAINED, duration_ms)]
    if options := request_.get("prompt_cache_options"):
        assert made.skeleton["prompt_cache_options"] == {"mode": "implicit", "ttl": options["ttl"]}
    else:
        assert made.skeleton["prompt_cache_retention"] == "24h"


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [({"controls": ALL_CONTROLS}, Outcome.UNSUPPORTED), ({"may_retain": False}, Outcome.OVER_SHARE)],
)
def test_lifetime_that_cannot_be_had_is_left_out_and_not_told_back(changes: dict[str, Any], outcome: Outcome) -> None:
    made = plan(**changes, prompt_cache_options={"ttl": "12h"}, prompt_cache_retention="24h")
    assert (made.request.retention, list(made.cache.outcomes)) == (None, [(Hint.RETAIN, outcome)])
    assert made.skeleton["prompt_cache_options"] == {"mode": "implicit"}
    assert made.skeleton["prompt_cache_retention"] == "in_memory"


@pytest.mark.parametrize(("mode", "rest"), [("implicit", NORMAL), ("explicit", LOW)])
def test_prompt_is_retained_up_to_its_breakpoints(mode: str, rest: int) -> None:
    def part(text: str, **breakpoint_: str) -> Object:
        marked = {"prompt_cache_breakpoint": {"mode": "explicit"} | breakpoint_}
        return {"type": "input_text", "text": text} | (marked if breakpoint_ else {})

    parts = [part(f"First. {LONG}", ttl="12h"), part(f"Second. {LONG}", mode="explicit"), part(f"Third. {LONG}")]
    made = plan(parts=parts, prompt_cache_options={"mode": mode})
    (start, first, *_), (_, second, *_), (_, end, *_) = found = ranges(made)
    assert [each[2:] for each in found] == [(RETAINED, TWELVE_HOURS_MS), (RETAINED, HALF_HOUR_MS), (rest, None)]
    ids, decode = made.prompt.ids, made.model.tokenizer.decode
    assert (start, end) == (0, None)
    assert decode(ids[:first]).rstrip().endswith(f"First. {LONG}".rstrip())
    assert decode(ids[:second]).rstrip().endswith(f"Second. {LONG}".rstrip())
    assert made.skeleton["prompt_cache_options"] == {"mode": mode}


def marked(text: str) -> Object:
    return {"type": "input_text", "text": text, "prompt_cache_breakpoint": {"mode": "explicit"}}


def test_search_for_breakpoints_is_linear_whatever_the_texts() -> None:
    """A search in the product of both lengths takes an hour here."""
    part, behind = "ab" + "a" * 3_000_000, "a" * 6_000_000
    assert breakpoints([marked(part)], [part, "|", behind], 60) == [(len(part), 60)]
    assert breakpoints([marked(part)], [behind], 60) == []


def test_latest_breakpoints_count_and_few_parts_are_searched_in_vain() -> None:
    texts = [f"part {number}" for number in range(BREAKPOINTS_MAX + 2)]
    parts, prompt, length = [marked(text) for text in texts], ["|".join(texts)], len("part 0")
    ends = [(number * (length + 1) + length, 60) for number in range(len(texts))]
    assert breakpoints(parts, prompt, 60) == ends[2:]
    lost = [{"type": "input_text", "text": f"lost {number}"} for number in range(MISSES_MAX)]
    assert breakpoints([*parts, *lost], prompt, 60) == ends[2:]
    assert breakpoints([*parts, *lost, lost[0]], prompt, 60) == []


def test_prompt_is_not_searched_for_an_engine_without_priorities() -> None:
    asked = replace(turn("Hi"), input=dumps([message("user") | {"content": [marked("Hi")]}]))
    made = TurnPlan.of(model(), asked, controls=ALL_CONTROLS, ids=SequentialIds())
    assert made.prompt.encoded is not None
    made = replace(made, prompt=replace(made.prompt, encoded=replace(made.prompt.encoded, pieces=_Unread())))
    assert made.with_hints(asked, ALL_CONTROLS, RetainedShares(0).of("a")).cache.outcomes == [
        (Hint.RETAIN, Outcome.UNSUPPORTED)
    ]


class _Unread(tuple[str, ...]):
    """Pieces of a prompt that nothing may read."""

    __slots__ = ()

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("the text was read")


def test_breakpoint_over_the_share_is_not_evicted_before_others() -> None:
    parts: list[Object] = [
        {"type": "input_text", "text": LONG, "prompt_cache_breakpoint": {"mode": "explicit"}},
        {"type": "input_text", "text": "And now?"},
    ]
    made = plan(parts=parts, may_retain=False, prompt_cache_options={"mode": "explicit"})
    assert [each[2] for each in ranges(made)] == [NORMAL, LOW]


def test_share_counts_a_line_of_turns_by_what_its_prompts_do_not_share() -> None:
    asked = turn("Hi", prompt_cache_key="k", prompt_cache_options={"ttl": "30m"})
    shares = RetainedShares(planned(model(), asked).prompt.tokens)
    for _ in range(2):
        assert planned(model(), asked, share=shares.of("a")).cache.outcomes == [(Hint.RETAIN, Outcome.SENT)]
    other = turn("Ho", prompt_cache_key="k", prompt_cache_options={"ttl": "30m"})
    assert planned(model(), other, share=shares.of("a")).cache.outcomes == [(Hint.RETAIN, Outcome.OVER_SHARE)]
    assert planned(model(), other, share=shares.of("b")).cache.outcomes == [(Hint.RETAIN, Outcome.SENT)]


@pytest.mark.parametrize(
    "later", [{"prompt_cache_options": {"mode": "explicit"}}, {"prompt_cache_options": {"ttl": "30m"}}]
)
def test_later_turn_of_the_line_leaves_retained_what_an_earlier_one_retained(later: Object) -> None:
    shares, now_s = RetainedShares(1_000, monotonic_s=lambda: now[0]), 100
    now = [0.0]
    first = turn(LONG, prompt_cache_key="k", prompt_cache_options={"ttl": "12h"})
    kept = planned(model(), first, share=shares.of("a")).prompt.tokens
    now[0] = now_s
    second = turn(LONG, LONG * 10, prompt_cache_key="k", **later)
    found = ranges(planned(model(), second, share=shares.of("a")))
    (start, end, priority, duration_ms), *rest = found
    assert (start, priority, duration_ms) == (0, RETAINED, TWELVE_HOURS_MS - 1_000 * now_s)
    assert end is not None
    assert kept - CHUNK_TOKENS - 20 < end <= kept
    assert all(each[2] != RETAINED for each in rest)


def test_pinned_beginning_of_a_system_message_stays() -> None:
    pinning = model(pinned_texts=("Be brief.", f"Be brief. {LONG}".strip()))
    made = plan(served=pinning, instructions=f"Be brief. {LONG} Today is Monday.", store=False)
    (start, end, priority, _), *rest = ranges(made)
    assert (start, priority, [each[2] for each in rest]) == (0, PINNED, [NORMAL, LOW][-len(rest) :])
    assert made.model.tokenizer.decode(made.prompt.ids[:end]).endswith(LONG.strip())
    assert plan(served=pinning, instructions="Be kind.").request.retention is None


_LAYERS = st.lists(
    st.builds(
        Layer,
        st.none() | st.integers(0, 500),
        st.sampled_from([LOW, NORMAL, RETAINED, PINNED]),
        st.none() | st.sampled_from([1_800, 43_200]),
    ),
    max_size=6,
)


@given(_LAYERS)
def test_ranges_have_no_gap_and_priorities_never_rise_along_the_prompt(layers: list[Layer]) -> None:
    layers = [*layers, Layer(None, LOW)]
    made = ranges_of(layers)
    assert (made[0].start, made[-1].end) == (0, None)
    assert [each.end for each in made[:-1]] == [each.start for each in made[1:]]
    assert [each.priority for each in made] == sorted((each.priority for each in made), reverse=True)
    for place in (0, 1, 250, 499, 10_000):
        covering = [layer for layer in layers if layer.end is None or layer.end > place]
        assert _at(made, place).priority == max(layer.priority for layer in covering)


def _at(made: tuple[RetentionRange, ...], place: int) -> RetentionRange:
    return next(each for each in made if each.start <= place and (each.end is None or place < each.end))
