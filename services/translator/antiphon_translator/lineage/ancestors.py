"""The lineages of a turn's ancestors, and those of them that hold for a prompt."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from operator import eq

from antiphon_translator.lineage import turn_lineage
from antiphon_translator.lineage.cache_loss import is_other_salt
from antiphon_translator.lineage.prompt_digest import prompt_digests
from antiphon_translator.lineage.turn_lineage import ID, TurnLineage, Written
from antiphon_translator.placement import PlacementHint

HINTS_MAX = 8
"""The placements of a prompt's beginnings: behind so many moves, the first ones are evicted."""


class Outcome(StrEnum):
    """The worth of a lineage to a prompt; `antiphon_lineage_total` explains each outcome."""

    HELD = "held"
    MISSING = "missing"
    FOREIGN = "foreign"
    DIFFERS = "differs"


@dataclass(frozen=True, slots=True)
class Ancestors:
    """The lineages of ancestors, and of all of their rounds, with the fingerprint of a model, root first."""

    lineages: Sequence[TurnLineage] = ()
    left_out: Mapping[Outcome, int] = field(default_factory=dict)
    """How many others there are, by their outcomes."""
    salt: bytes = b""
    """The digest of the prompt's salt. What an engine computed under another one is not in its cache."""

    @classmethod
    def read(cls, stored: Sequence[bytes], fingerprint: int, salt: bytes = b"") -> Ancestors:
        """Reads the lineages of a turn. Those that are damaged, or of another model, are left out. `salt` is the digest
        of the turn's salt."""
        turns = [turn_lineage.decode_rounds(each) for each in stored]
        rounds = list(chain.from_iterable(turns))
        kept = [each for each in rounds if each.fingerprint == fingerprint]
        missing = sum(not each for each in stored)
        damaged = sum(not each for each in turns) - missing
        return cls(kept, {Outcome.MISSING: missing, Outcome.FOREIGN: damaged + len(rounds) - len(kept)}, salt)

    def of_prompt(self, pieces: Sequence[str]) -> Ancestors:
        """The lineages whose prompt is the beginning of this one."""
        lengths = [each.prompt_chars for each in self.lineages if each.prompt_chars]
        digests = prompt_digests(pieces, lengths) if lengths else {}
        kept = [each for each in self.lineages if digests.get(each.prompt_chars) == each.prompt_digest]
        left_out = {**self.left_out, Outcome.DIFFERS: len(self.lineages) - len(kept)}
        return Ancestors(kept, left_out, self.salt)

    @property
    def outcomes(self) -> Mapping[Outcome, int]:
        """How many lineages there are, by their outcomes."""
        return {Outcome.HELD: len(self.lineages), **self.left_out}

    @property
    def outputs(self) -> Sequence[Written]:
        """The ids that were written, and where their text is expected in the prompt, first to last."""
        found = [Written(each.prompt_chars, each.written_ids) for each in self.lineages if each.written_ids]
        return sorted(found, key=lambda written: written.start)

    def expected_tokens(self, ids: Sequence[int]) -> int:
        """The number of ids at the beginning of a prompt that an engine should have in its cache. The lineages are
        those `of_prompt`; `ids` is empty for a prompt that its server renders."""
        return max((_common_tokens(each, ids) for each in self.lineages[-1:]), default=0)

    @property
    def has_lost_salt(self) -> bool:
        """Whether the last ancestor had another salt, so that all that was computed for it is lost."""
        return bool(self.lineages) and is_other_salt(self.lineages[-1].salt, self.salt)

    @property
    def has_unknown_salt(self) -> bool:
        """Whether the last ancestor may have had another salt: its lineage names none."""
        return bool(self.lineages and self.salt) and not self.lineages[-1].salt

    def hints(self, ids: Sequence[int]) -> Sequence[PlacementHint]:
        """Where beginnings of a prompt lie, the longest first: the last ancestor of each of the last HINTS_MAX
        placements."""
        last: dict[bytes, TurnLineage] = {}
        for each in reversed(self.lineages):
            if each.placement and not is_other_salt(each.salt, self.salt) and len(last) < HINTS_MAX:
                last.setdefault(each.placement, each)
        hints = [
            PlacementHint(placement.decode(errors="replace"), _common_tokens(each, ids), each.at_ms)
            for placement, each in last.items()
        ]
        return sorted(hints, key=lambda hint: -hint.tokens)


def _common_tokens(lineage: TurnLineage, ids: Sequence[int]) -> int:
    """The ids at the beginning of a prompt that are those of an ancestor's prompt and output."""
    start, written = lineage.prompt_tokens, lineage.written_ids
    if start >= len(ids):
        return min(start, len(ids)) if ids else start
    now = array(ID, ids[start : start + len(written)])
    if now == written:
        return start + len(written)
    return start + next((at for at, same in enumerate(map(eq, now, written)) if not same), len(now))


NO_ANCESTORS = Ancestors()
