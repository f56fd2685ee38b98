"""Outputs of gpt-oss are read as openai-harmony reads them; outputs that openai-harmony gives up on are read, too."""

from __future__ import annotations

import pytest

from tests.support.harmony import ours
from tests.support.harmony.outputs import MALFORMED, WELL_FORMED, Output, parts_meant
from tests.support.harmony.recording import recorded
from tests.support.tool_calls.outcomes import cuts

BOTH = (*WELL_FORMED, *MALFORMED)


@pytest.mark.parametrize("output", WELL_FORMED, ids=lambda output: output.id)
def test_a_well_formed_output_means_what_openai_harmony_says(output: Output) -> None:
    kept = recorded()
    assert ours.parts(kept.vocabulary, [kept.ids[output.id]]) == parts_meant(kept.messages[output.id]) != []


@pytest.mark.parametrize("output", MALFORMED, ids=lambda output: output.id)
def test_a_malformed_output_means_what_is_written_down(output: Output) -> None:
    kept = recorded()
    assert output.why
    assert ours.parts(kept.vocabulary, [kept.ids[output.id]]) == list(output.means)


@pytest.mark.parametrize("output", BOTH, ids=lambda output: output.id)
def test_where_the_ids_are_cut_means_nothing(output: Output) -> None:
    kept = recorded()
    first, *others = (ours.parts(kept.vocabulary, pieces) for pieces in cuts(kept.ids[output.id]))
    assert all(other == first for other in others)


@pytest.mark.parametrize("output", WELL_FORMED, ids=lambda output: output.id)
def test_what_is_cut_off_is_the_beginning_of_the_whole(output: Output) -> None:
    kept = recorded()
    ids = kept.ids[output.id]
    whole = ours.parts(kept.vocabulary, [ids])
    for length in range(len(ids)):
        cut = ours.parts(kept.vocabulary, [ids[:length]], cut_off=True)
        assert len(cut) <= len(whole)
        for part, later in zip(cut, whole, strict=False):
            assert part.name == later.name
            assert later.text.startswith(part.text)


@pytest.mark.parametrize("output", MALFORMED, ids=lambda output: output.id)
def test_a_malformed_output_may_be_cut_off_anywhere(output: Output) -> None:
    kept = recorded()
    ids = kept.ids[output.id]
    for length in range(len(ids)):
        ours.parts(kept.vocabulary, [ids[:length]], cut_off=True)
