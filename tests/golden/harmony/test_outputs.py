"""Outputs of gpt-oss, read as by openai-harmony. Outputs that openai-harmony rejects are read, too."""

from __future__ import annotations

import pytest

from tests.support.harmony import ours
from tests.support.harmony.outputs import MALFORMED, WELL_FORMED, Output, parts_meant
from tests.support.harmony.recording import recorded
from tests.support.tool_calls.outcomes import cuts

BOTH = (*WELL_FORMED, *MALFORMED)


@pytest.mark.parametrize("output", WELL_FORMED, ids=lambda output: output.id)
def test_well_formed_output_is_read_as_by_openai_harmony(output: Output) -> None:
    kept = recorded()
    assert ours.parts(kept.vocabulary, [kept.ids[output.id]]) == parts_meant(kept.messages[output.id]) != []


@pytest.mark.parametrize("output", MALFORMED, ids=lambda output: output.id)
def test_malformed_output_is_read_as_listed(output: Output) -> None:
    kept = recorded()
    assert output.why
    assert ours.parts(kept.vocabulary, [kept.ids[output.id]]) == list(output.means)


@pytest.mark.parametrize("output", BOTH, ids=lambda output: output.id)
def test_output_is_read_equally_for_any_cut_of_its_ids(output: Output) -> None:
    kept = recorded()
    first, *others = (ours.parts(kept.vocabulary, pieces) for pieces in cuts(kept.ids[output.id]))
    assert all(other == first for other in others)


@pytest.mark.parametrize("output", WELL_FORMED, ids=lambda output: output.id)
def test_output_that_is_cut_off_is_read_as_a_prefix(output: Output) -> None:
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
def test_malformed_output_cut_off_anywhere_raises_no_error(output: Output) -> None:
    kept = recorded()
    ids = kept.ids[output.id]
    for length in range(len(ids)):
        ours.parts(kept.vocabulary, [ids[:length]], cut_off=True)
