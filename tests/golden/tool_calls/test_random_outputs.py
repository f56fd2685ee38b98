"""Properties of every output that a model may write. `make fuzz` checks them on 20,000 outputs of each family."""

from __future__ import annotations

import random
import re

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from antiphon_translator.parsing import families
from antiphon_translator.parsing.family import Family
from tests.golden.tool_calls import fuzz
from tests.support.tool_calls.random_outputs import HOSTILE, check, output_fuzzer, parsed, pieces_of, told
from tests.support.volume import volume

SAMPLE = volume(40, 4_000)
FAMILIES = families.names()
# These begin a call, or a header, without any marker.
_CALLS_OF_TEXT = {"llama3", "llama4", "xlam", "gpt_oss", "kimi_k3", "sarashina"}


def test_sample_of_random_outputs_breaks_no_parser_rule() -> None:
    fuzz.run(SAMPLE, seed=1)


@pytest.mark.parametrize("tokens", [False, True], ids=["text", "tokens"])
@pytest.mark.parametrize("name", FAMILIES)
@settings(max_examples=volume(4, 200))
@given(data=st.data())
def test_random_output_is_read_equally_for_any_cut(name: str, tokens: bool, data: st.DataObject) -> None:
    here = output_fuzzer(name, tokens=tokens)
    output = "".join(
        data.draw(
            st.lists(st.sampled_from((*here.markers, *here.leftovers, *HOSTILE)) | st.text(max_size=4), max_size=20)
        )
    )
    chance = random.Random(data.draw(st.integers(0, 99)))
    check(here.family, output, pieces_of(output, chance), tail=data.draw(st.sampled_from(("", *here.markers))))


@pytest.mark.parametrize("name", sorted(set(FAMILIES) - _CALLS_OF_TEXT))
@settings(max_examples=volume(8, 500))
@given(data=st.data())
def test_random_output_without_calls_loses_no_text(name: str, data: st.DataObject) -> None:
    family = families.load(name)
    pieces = data.draw(st.lists(st.sampled_from((*HOSTILE, *_not_text(family)))))
    output = "".join(pieces)
    assume(not any(marker in output for marker in (*family.openers, *family.stray)))
    segments = parsed(family, pieces_of(output, random.Random(len(pieces))))
    marker = _any_of(tuple("".join(each.split()) for each in _not_text(family)))  # mentioned markers are shown
    assert re.sub(marker, "", told(segments)) == re.sub(marker, "", "".join(output.split()))


def _not_text(family: Family) -> tuple[str, ...]:
    return (*family.reasoning_open, *family.reasoning_close, *family.ignored)


def _any_of(markers: tuple[str, ...]) -> str:
    return "|".join(map(re.escape, sorted(markers, key=len, reverse=True))) or "(?!)"
