"""The part of a response's prompt that was in the engine's cache, and the causes for the rest, in the forms of the API.

Everything is read from lineages or found by comparison (divergence.py). Where neither tells, the cause is `unknown`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b

from antiphon_core.errors import AntiphonError
from antiphon_core.jsons import Object, parse_object
from antiphon_core.ports.translator import EndedTurn
from antiphon_translator.diagnosis.causes import REASONS, Cause
from antiphon_translator.diagnosis.divergence import Comparison, Difference
from antiphon_translator.diagnosis.ended_prompt import EndedPrompt, first_prompt, last_prompt
from antiphon_translator.generation import Level
from antiphon_translator.lineage import cache_loss, turn_lineage
from antiphon_translator.lineage.cache_loss import Loss
from antiphon_translator.lineage.turn_lineage import TurnLineage
from antiphon_translator.media.turn_media import TurnMedia
from antiphon_translator.models.served_model import ServedModel
from antiphon_translator.placement import endpoint_of

_LABEL_BYTES = 2
NOT_FOUND: Object = {"type": "comparison_response_not_found"}
UNAVAILABLE: Object = {"type": "unavailable"}
HIT: Object = {"type": "cache_hit"}


@dataclass(frozen=True, slots=True)
class CacheReport:
    """The facts of one response, and its comparison with another one. `reusable_tokens` are those that both prompts
    begin with, None where they are not known. `lost` are tokens by cause."""

    rounds: Sequence[TurnLineage]
    tenant: str
    before: TurnLineage | None = None
    reusable_tokens: int | None = None
    difference: Difference | None = None
    lost: Object | None = None
    is_exact: bool = False
    has_other_key: bool = False
    """Whether the two requests have different values of `prompt_cache_key`."""

    @property
    def prompt_tokens(self) -> int:
        return sum(each.prompt_tokens for each in self.rounds)

    @property
    def cached_tokens(self) -> int | None:
        """None: the engine reports nothing of its cache."""
        reported = [each.cached_tokens for each in self.rounds if each.cached_tokens is not None]
        return sum(reported) if reported else None

    def as_object(self) -> Object:
        """The members of `response.cache`."""
        lost, cached = self.lost or {}, self.cached_tokens
        known = sum(lost.values())
        return {
            "prompt_tokens": self.prompt_tokens if self.rounds else None,
            "cached_tokens": cached,
            "lost_tokens": known if cached is not None else None,
            "new_tokens": max(self.prompt_tokens - cached - known, 0) if cached is not None else None,
            "lost": lost,
            "replica": replica_label(self.rounds[0], self.tenant) if self.rounds else None,
            "comparison": self._comparison() if self.before is not None or self.difference is not None else None,
        }

    def _comparison(self) -> Object:
        before, found = self.before, self.difference
        age_ms = self.rounds[0].at_ms - before.at_ms if before is not None and self.rounds else None
        return {
            "is_exact": self.is_exact,
            "reusable_tokens": self.reusable_tokens,
            "replica": replica_label(before, self.tenant) if before is not None else None,
            "age_s": None if age_ms is None else max(age_ms, 0) // 1000,
            "first_difference": None if found is None else _difference(found),
        }

    def diagnostics(self) -> Object:
        """The member `prompt_cache_diagnostics`, in OpenAI's form."""
        if self.difference is not None:
            return self._miss(REASONS.get(self.difference.cause))
        if not self.is_exact or self.cached_tokens is None:
            return UNAVAILABLE
        causes = {cause for cause in self.lost or {} if cause != Loss.BLOCK}
        if not causes:
            return HIT
        moved = causes == {Loss.OTHER_REPLICA.value} and self.has_other_key
        return self._miss("prompt_cache_key_changed" if moved else None)

    def _miss(self, reason: str | None) -> Object:
        """A miss; OpenAI has no reason for what happens to a server."""
        missed = sum((self.lost or {}).values())
        if self.reusable_tokens is None:
            missed = self.prompt_tokens - (self.cached_tokens or 0) if self.cached_tokens is not None else 0
        if reason is None or not missed:
            return UNAVAILABLE
        reusable = {} if self.reusable_tokens is None else {"comparison_reusable_tokens": self.reusable_tokens}
        return {"type": "cache_miss", "reason": reason, "cache_missed_tokens": missed, **reusable}


def facts_of(now: EndedTurn) -> CacheReport:
    """The facts in the lineage of a response."""
    rounds = turn_lineage.decode_rounds(now.lineage)
    return CacheReport(rounds, now.turn.tenant, lost=_add_losses({}, rounds))


def compare(
    model: ServedModel,
    now: EndedTurn,
    before: EndedTurn,
    *,
    level: Level,
    media: TurnMedia,
    media_before: TurnMedia | None = None,
) -> CacheReport:
    """Compares a response with an earlier one. `media` reads the images of the response, `media_before` those of the
    earlier one."""
    found: Difference | None
    rounds, earlier = turn_lineage.decode_rounds(now.lineage), turn_lineage.decode_rounds(before.lineage)
    last = earlier[-1] if earlier else None
    names = _model_of(before), _model_of(now)
    keys = _key_of(before), _key_of(now)
    facts = CacheReport(rounds, now.turn.tenant, last, has_other_key=keys[0] != keys[1])
    if names[0] != names[1]:
        found = Difference(Cause.MODEL, 0, 0, "model", before=names[0], after=names[1])
        return _with_difference(facts, found, reusable=0, is_exact=True)
    if rounds and last is not None and rounds[0].fingerprint != last.fingerprint:
        return _with_difference(facts, Difference(Cause.MODEL, 0, 0), reusable=0, is_exact=True)
    if rounds and last is not None and rounds[0].salt and cache_loss.is_other_salt(last.salt, rounds[0].salt):
        return _with_difference(facts, Difference(Cause.SALT, 0, 0), reusable=0, is_exact=True)
    try:
        there = last_prompt(model, before, media_before or media.anew(), level)
        here = _first_prompt(model, now, before, media, level)
        comparison = Comparison(model, there, here, media)
        found, is_exact = comparison.difference(), comparison.is_exact
    except AntiphonError:  # an item that can no longer be read, or a prompt that no longer fits
        return _with_difference(facts, None, reusable=None, is_exact=False)
    is_known = is_exact and comparison.has_ids
    reusable = None if not is_known else comparison.reusable_tokens if found is None else found.token
    return _with_difference(facts, found, reusable=reusable, is_exact=is_exact)


def _first_prompt(model: ServedModel, now: EndedTurn, before: EndedTurn, media: TurnMedia, level: Level) -> EndedPrompt:
    """The prompt of a response. One that resent its conversation may have had the lineages of the earlier response,
    which no record names."""
    made = first_prompt(model, now, media.anew(), level)
    if made.has_ids:
        return made
    behind = replace(now.turn, lineages=(*before.turn.lineages, before.lineage))
    resent = first_prompt(model, replace(now, turn=behind), media.anew(), level)
    return resent if resent.has_ids else made


def _with_difference(
    facts: CacheReport, found: Difference | None, *, reusable: int | None, is_exact: bool
) -> CacheReport:
    lost: Object = {}
    rounds, before = facts.rounds, facts.before
    if rounds and reusable is not None and before is not None and found is not None:
        shared = min(rounds[0].prompt_tokens, before.prompt_tokens + len(before.written_ids))
        _add(lost, found.cause.value, shared - reusable)
    if rounds and rounds[0].cached_tokens is not None:
        expected = rounds[0].expected_tokens if reusable is None else reusable
        _add(lost, _engine_loss(rounds[0], before, expected), expected - rounds[0].cached_tokens)
    _add_losses(lost, rounds[1:])
    return CacheReport(
        rounds,
        facts.tenant,
        before,
        reusable,
        found,
        lost,
        is_exact=is_exact,
        has_other_key=facts.has_other_key,
    )


def _engine_loss(now: TurnLineage, before: TurnLineage | None, expected: int) -> str:
    """The cause for which the engine had fewer than the expected tokens."""
    if expected - (now.cached_tokens or 0) <= cache_loss.BLOCK_TOKENS or now.lost_to == Loss.BLOCK:
        return Loss.BLOCK.value
    if before is not None and bool(before.salt) != bool(now.salt):  # a lineage of an older release, or another setting
        return Loss.SALT.value if now.lost_to == Loss.SALT else Loss.UNKNOWN.value
    places = [endpoint_of(each.placement.decode(errors="replace")) for each in (now, before) if each is not None]
    if len(places) > 1 and all(places) and places[0] != places[1]:
        return Loss.OTHER_REPLICA.value
    return now.lost_to or Loss.UNKNOWN.value


def _add_losses(lost: Object, rounds: Sequence[TurnLineage]) -> Object:
    """Adds what rounds lost, as their lineages say."""
    for each in rounds:
        if each.cached_tokens is not None:
            _add(lost, each.lost_to or Loss.UNKNOWN.value, each.expected_tokens - each.cached_tokens)
    return lost


def _add(lost: Object, cause: str, tokens: int) -> None:
    if tokens > 0:
        lost[cause] = lost.get(cause, 0) + tokens


def replica_label(lineage: TurnLineage, tenant: str) -> str | None:
    """A short name of the place where a prompt lies: equal for equal places, and of no use to find the server. None:
    the engine has one place only, or does not say."""
    if not lineage.placement:
        return None
    return blake2b(lineage.placement, digest_size=_LABEL_BYTES, key=tenant.encode()[:64], person=b"replica").hexdigest()


def _difference(found: Difference) -> Object:
    return {
        "cause": found.cause.value,
        "token": found.token,
        "char": found.char,
        "path": found.path,
        "item_id": found.item_id,
        "before": found.before or None,
        "after": found.after or None,
    }


def _model_of(ended: EndedTurn) -> str:
    return str(parse_object(ended.turn.request).get("model"))


def _key_of(ended: EndedTurn) -> object:
    return parse_object(ended.turn.request).get("prompt_cache_key")
