from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace

import pytest

from antiphon_translator.lineage import turn_lineage
from antiphon_translator.lineage.ancestors import HINTS_MAX, Ancestors, Outcome
from antiphon_translator.lineage.prompt_digest import prompt_digests
from antiphon_translator.lineage.turn_lineage import TurnLineage
from antiphon_translator.placement import PlacementHint

TEXT = "one two three"
IDS = [1, 2, 3, 4, 5, 6, 7]


def lineage(
    chars: int, tokens: int = 2, written: Sequence[int] = (3, 4), *, text: str = TEXT, place: str = "a"
) -> TurnLineage:
    return TurnLineage(
        7,
        prompt_chars=chars,
        prompt_digest=prompt_digests([text], [chars])[chars],
        prompt_tokens=tokens,
        written_ids=array("i", written),
        placement=place.encode(),
        at_ms=chars,
    )


def test_lineages_of_another_model_and_damaged_ones_are_left_out() -> None:
    other = TurnLineage(8)
    stored = [turn_lineage.encode(each) for each in (lineage(3), other, lineage(5))]
    found = Ancestors.read([*stored, b"\xff", b"", turn_lineage.encode(lineage(7), stored[1])], 7)
    assert found.lineages == [lineage(3), lineage(5), lineage(7)]
    assert found.left_out == {Outcome.MISSING: 1, Outcome.FOREIGN: 3}
    assert found.of_prompt([TEXT[:4]]).left_out == {Outcome.MISSING: 1, Outcome.FOREIGN: 3, Outcome.DIFFERS: 2}


def test_lineages_hold_for_prompts_that_begin_with_theirs() -> None:
    known = Ancestors([lineage(3), lineage(5, text="other text"), lineage(7), TurnLineage(7)])
    assert known.of_prompt([TEXT]).lineages == [lineage(3), lineage(7)]
    assert known.of_prompt([TEXT[:4]]).lineages == [lineage(3)]
    assert known.of_prompt([TEXT[:2], TEXT[2:]]).lineages == []  # it spells a control token there


@pytest.mark.parametrize(
    ("written", "ids", "expected"),
    [
        ((3, 4), IDS, 4),
        ((3, 9), IDS, 3),  # the text of the rest differs
        ((3, 4), IDS[:3], 3),
        ((), IDS, 2),
        ((3, 4), IDS[:1], 1),
        ((3, 4), [], 2),  # the server renders the prompt
    ],
)
def test_expected_tokens_are_those_that_an_engine_has_computed(
    written: Sequence[int], ids: Sequence[int], expected: int
) -> None:
    assert Ancestors([lineage(3, 1), lineage(5, 2, written)]).expected_tokens(ids) == expected


def test_hints_name_each_placement_once_the_longest_beginning_first() -> None:
    known = Ancestors([lineage(1, 1, (2,)), lineage(2, 2, place="b"), lineage(3, 3, (4,)), lineage(4, 4, place="")])
    assert list(known.hints(IDS)) == [PlacementHint("a", 4, 3), PlacementHint("b", 4, 2)]


def test_under_another_salt_nothing_is_hinted_and_the_loss_is_known() -> None:
    salted = replace(lineage(3, 3, (4,)), salt=b"old")
    stored = [turn_lineage.encode(salted)]
    old, new = Ancestors.read(stored, 7, b"old"), Ancestors.read(stored, 7, b"new").of_prompt([TEXT])
    assert (len(old.hints(IDS)), old.has_lost_salt) == (1, False)
    assert (list(new.hints(IDS)), new.has_lost_salt, new.expected_tokens(IDS)) == ([], True, 4)
    assert not Ancestors(salt=b"new").has_lost_salt


def test_ancestor_whose_lineage_names_no_salt_is_hinted_and_its_loss_is_not_known() -> None:
    unsalted = [turn_lineage.encode(lineage(3, 3, (4,)))]
    found = Ancestors.read(unsalted, 7, b"now")
    assert (len(found.hints(IDS)), found.has_lost_salt, found.has_unknown_salt) == (1, False, True)
    assert not Ancestors.read(unsalted, 7).has_unknown_salt
    assert not Ancestors(salt=b"now").has_unknown_salt


def test_hints_are_those_of_the_last_placements() -> None:
    known = Ancestors([lineage(number, number, (), place=f"{number:02}") for number in range(1, 13)])
    hints = [hint.endpoint for hint in known.hints(list(range(20)))]
    assert hints == [f"{number:02}" for number in range(12, 12 - HINTS_MAX, -1)]


def test_nothing_is_expected_without_ancestors() -> None:
    assert (Ancestors().expected_tokens(IDS), list(Ancestors().hints(IDS))) == (0, [])
