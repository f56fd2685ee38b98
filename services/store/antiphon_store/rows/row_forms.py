"""The form of each kind's rows: the types of its fields, and the values that no rule writes.

services/store/README.md lists the fields. Rules assume them, so a row that a disk, an operator or another program has
changed would end a call with a bug's traceback, or with a wrong answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain, repeat
from operator import itemgetter
from types import NoneType
from typing import Any

from antiphon_core.ports.event_logs import StepKind
from antiphon_core.ports.jobs import JobState
from antiphon_core.ports.store import Status
from antiphon_store.rows.model import Kind, Ref

_Check = Callable[[Any], bool]


class Absent:
    """The type of a field that a row lacks."""


_ABSENT = Absent()
NUMBER_MAX = 2**53 - 1  # the largest that every database and every client keeps exactly
_TEXT, _NUMBER, _FLAG = frozenset({str}), frozenset({int}), frozenset({int, bool})
_NOTHING = frozenset({NoneType})
_NO_FIELD = frozenset({NoneType, Absent})  # of a field that is null or absent
_SEALED = _TEXT  # encryption replaces a value by text
_LIST, _MAP = frozenset({list}), frozenset({dict})

_TYPES: Mapping[Kind, Mapping[str, frozenset[type]]] = {
    Kind.NODE: {
        **dict.fromkeys(("depth", "version", "created", "updated", "size", "input_bytes"), _NUMBER),
        **dict.fromkeys(("parent", "session"), _TEXT | _NOTHING),
        **dict.fromkeys(("items_crc", "body_crc"), _NUMBER | _SEALED),
        "status": _TEXT,
        "deleted": _FLAG,
        "added": _FLAG | _NO_FIELD,
        "expires": _NUMBER | _NOTHING,
        "approvals": _LIST | _NO_FIELD,
    },
    Kind.SESSION: {
        **dict.fromkeys(("head", "holder"), _TEXT | _NO_FIELD),
        **dict.fromkeys(("fence", "lease_until", "stamp", "responses_until", "ended"), _NUMBER | _NO_FIELD),
        **dict.fromkeys(("removed", "source"), _LIST | _NO_FIELD),
        "is_over": _FLAG | _NO_FIELD,
    },
    Kind.CONVERSATION: {
        **dict.fromkeys(("metadata", "origin", "incarnation"), _TEXT),
        **dict.fromkeys(("created", "version"), _NUMBER),
        "expires": _NUMBER | _NOTHING,
    },
    Kind.LOG: {**dict.fromkeys(("next", "until", "size"), _NUMBER), "closed": _FLAG},
    Kind.BATCH: {
        "count": _NUMBER,
        "terminal": _FLAG,
        "checkpoint": _LIST | _SEALED | _NOTHING,
        "crc": _NUMBER | _SEALED,
        "steps": _LIST | _SEALED | _NO_FIELD,
    },
    Kind.JOB: {
        **dict.fromkeys(("queue", "holder"), _TEXT),
        **dict.fromkeys(("max_attempts", "retention", "available", "attempts", "lease_until"), _NUMBER),
        **dict.fromkeys(("waits", "stamp"), _NUMBER | _NO_FIELD),
        "cancel": _FLAG,
        **dict.fromkeys(("settled", "ended"), _LIST | _NOTHING),
    },
    Kind.POINTER: {"tree": _TEXT},
    Kind.KEY: {
        **dict.fromkeys(("response", "fingerprint"), _TEXT),
        **dict.fromkeys(("claimed_until", "expires", "binding_until"), _NUMBER),
        "bound": _FLAG,
        "stamp": _LIST | _NOTHING,
    },
    Kind.QUOTA: {"buckets": _MAP | _NO_FIELD, "slots": _MAP | _NO_FIELD},
    Kind.LINE: dict.fromkeys(("at", "joins", "places"), _NUMBER),
    Kind.LINEAGE: {"key": _TEXT | _NO_FIELD},
    Kind.APPROVAL: {
        "response": _TEXT,
        "created": _NUMBER,
        "used_by": _TEXT | _NOTHING,
        "is_approved": _FLAG | _NOTHING,
        "sent": _FLAG | _NO_FIELD,
        **dict.fromkeys(("expires", "taken_until"), _NUMBER | _NOTHING),
    },
    Kind.PROMPT: {},  # a version has no fields; the other rows of this kind: _FORMS_OF_PROMPTS
}
"""The types of the fields of each kind, as services/store/README.md lists them."""


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value <= NUMBER_MAX


def _is_text(value: Any) -> bool:
    return type(value) is str


def _is_nothing_or(check: _Check) -> _Check:
    return lambda value: value is None or check(value)


def _is_tuple_of(*checks: _Check) -> _Check:
    return lambda value: (
        len(value) == len(checks) and all(check(each) for check, each in zip(checks, value, strict=True))
    )


def _is_list_of(check: _Check) -> _Check:
    return lambda value: type(value) is list and all(map(check, value))


def _is_map_of(check: _Check) -> _Check:
    return lambda value: all(map(check, value.values()))


def _is_amount(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= NUMBER_MAX


_is_checkpoint = _is_tuple_of(_is_number, _is_list_of(_is_number))
_STEP_KINDS = frozenset(each.value for each in StepKind)
_are_steps = _is_list_of(_is_tuple_of(_is_number, _STEP_KINDS.__contains__, _is_text, _is_text))
_STATUSES = frozenset(each.value for each in Status)
_JOB_STATES = frozenset(each.value for each in JobState)
_CHECKS: Mapping[Kind, Sequence[tuple[str, _Check]]] = {
    Kind.NODE: [
        ("status", _STATUSES.__contains__),
        ("approvals", _is_nothing_or(_is_list_of(_is_text))),
    ],
    Kind.SESSION: [
        ("removed", _is_nothing_or(_is_list_of(_is_text))),
        ("source", _is_nothing_or(_is_tuple_of(_is_nothing_or(_is_text), _is_nothing_or(_is_text), _is_text))),
    ],
    Kind.BATCH: [
        ("checkpoint", lambda value: type(value) is not list or _is_checkpoint(value)),
        ("steps", lambda value: type(value) is not list or _are_steps(value)),
    ],
    Kind.JOB: [
        ("settled", _is_nothing_or(_is_tuple_of(_is_number, _is_text, _is_text))),
        ("ended", _is_nothing_or(_is_tuple_of(_JOB_STATES.__contains__, _is_text, _is_number))),
    ],
    Kind.KEY: [("stamp", _is_nothing_or(_is_tuple_of(*[_is_number] * 4, _is_nothing_or(_is_number))))],
    Kind.QUOTA: [
        ("buckets", _is_nothing_or(_is_map_of(_is_list_of(_is_amount)))),
        ("slots", _is_nothing_or(_is_map_of(_is_number))),
    ],
}
"""Checks of values for which their types are not enough."""


class Form:
    """The form of the rows of a kind. Types are compared all at once: most rows of a kind have the same."""

    def __init__(self, types: Mapping[str, frozenset[type]], checks: Sequence[tuple[str, _Check]]) -> None:
        self._types = {"v": _NUMBER, **types}
        self._checks = checks
        self._numbers: dict[tuple[type, ...], Callable[[Mapping[str, Any]], Any]] = {}

    def fits(self, fields: Mapping[str, Any]) -> bool:
        signature = (*map(type, map(fields.get, self._types, repeat(_ABSENT))),)
        numbers_of = self._numbers.get(signature) or self._note_types(signature)
        if numbers_of is None:
            return False
        numbers = numbers_of(fields)
        if min(numbers) < 0 or max(numbers) > NUMBER_MAX:
            return False
        return all(check(fields.get(name)) for name, check in self._checks)

    def _note_types(self, signature: tuple[type, ...]) -> Callable[[Mapping[str, Any]], Any] | None:
        """Notes types that fit, with a function that gets the numbers among the fields; None: they do not fit."""
        if not all(each in allowed for each, allowed in zip(signature, self._types.values(), strict=True)):
            return None
        names = [name for name, each in zip(self._types, signature, strict=True) if each in _FLAG]
        numbers_of = self._numbers[signature] = itemgetter(*names, "v")
        return numbers_of


_FORMS = {kind: Form(types, _CHECKS.get(kind, ())) for kind, types in _TYPES.items()}
_FORMS_OF_PROMPTS = {
    "all": Form(dict.fromkeys(("created", "latest"), _NUMBER), ()),
    "count": Form({"prompts": _NUMBER}, ()),
}


def form_of(ref: Ref) -> Form:
    """The form of a row. Prompts have three, by the beginning of their ids (decisions/prompts.py)."""
    prompt = _FORMS_OF_PROMPTS.get(ref.id.partition("/")[0]) if ref.kind is Kind.PROMPT else None
    return prompt or _FORMS[ref.kind]


_NODE_NUMBERS = itemgetter("v", "depth", "version", "created", "updated", "size", "input_bytes")


def are_sound(nodes: Sequence[Mapping[str, Any]]) -> bool:
    """Whether nodes have their form, column by column: seven times as fast as one by one. If it raises, they do not
    have it."""
    numbers = [0, *chain.from_iterable(map(_NODE_NUMBERS, nodes))]
    numbers += [each for each in map(itemgetter("expires"), nodes) if each is not None]
    texts = chain.from_iterable(map(itemgetter("parent", "session"), nodes))
    checksums = chain.from_iterable(map(itemgetter("items_crc", "body_crc"), nodes))
    return (
        set(map(type, numbers)) == {int}
        and min(numbers) >= 0
        and max(numbers) <= NUMBER_MAX
        and set(map(type, texts)) <= {str, NoneType}
        and set(map(type, checksums)) <= {int, str}
        and set(map(itemgetter("status"), nodes)) <= _STATUSES
        and set(map(itemgetter("deleted"), nodes)) <= {0, 1}
    )
