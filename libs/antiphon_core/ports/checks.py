"""Checks of arguments, as annotations of the ports: `Annotated[int, within(1, 100)]`.

A check gets a value that is not None, and the name that errors give it. It raises InvalidRequest or TooLarge.
`check_of` makes the check of a type: those of its annotations, of the members of a dataclass, and of the elements of a
sequence. A dataclass checks its members together with a method `check`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest, TooLarge
from antiphon_core.ids import (
    APPROVAL_ID,
    CONVERSATION_ID,
    PROMPT_ID,
    RESPONSE_ID,
    SESSION_ID,
    TENANT,
    item_tag,
    tree_tag,
)

Check = Callable[[Any, str], None]

INT64_MAX = 2**63 - 1
TTL_MS_MAX = 10 * 366 * 24 * 3600 * 1000  # ten years, so that sums stay in 64 bits; None means for ever


def invalid(field: str, message: str, *, code: str = "invalid_value") -> InvalidRequest:
    """The error for the value of a field."""
    return InvalidRequest(message, field=field, code=code)


def too_large(subject: str, size_bytes: int, most: int, field: str) -> TooLarge:
    """The error for a value of too many bytes. `subject` begins its message, such as "The items are"."""
    return TooLarge(f"{subject} {size_bytes} bytes long; at most {most} are stored.", field=field)


def part(field: str, name: str) -> str:
    """The name of a member of a field."""
    return f"{field}.{name}" if field else name


# ---- Annotations ----


def fitting(fits: Callable[[str], object], must_be: str) -> Check:
    """Makes the check of a text."""

    def check_text(text: str, field: str) -> None:
        if not fits(text):
            raise invalid(field, f"'{field}' must be {must_be}.")

    return check_text


def within(low: int, high: int) -> Check:
    """Makes the check of a number."""
    return partial(check_range, low=low, high=high)


def count_within(least: int, most: int) -> Check:
    """Makes the check of the length of a list."""

    def check_length(values: Sequence[Any], field: str) -> None:
        check_range(len(values), field, least, most)

    return check_length


def bytes_up_to(most: int, subject: str) -> Check:
    """Makes the check of a size. `subject` begins the message of TooLarge."""

    def check_length(data: bytes, field: str) -> None:
        if len(data) > most:
            raise too_large(subject, len(data), most, field)

    return check_length


def name_up_to(most: int) -> Check:
    """Makes the check of a name that the caller chooses: of a queue, a bucket, a slot."""
    is_name = re.compile(rf"[A-Za-z0-9._-]{{1,{most}}}").fullmatch
    return fitting(is_name, f"1 to {most} letters, digits, dots, underscores and hyphens")


def check_range(value: int, field: str, low: int, high: int) -> None:
    """Checks that a number is from `low` to `high`."""
    if not low <= value <= high:
        code = "integer_below_min_value" if value < low else "integer_above_max_value"
        raise invalid(field, f"'{field}' must be from {low} to {high}, but is {value}.", code=code)


def check_given(data: bytes, field: str) -> None:
    """Checks that bytes are not empty: on the wire, an empty field is a missing one."""
    if not data:
        raise invalid(field, f"'{field}' is missing.")


def check_owner(idempotency_key: str | None, response_id: str | None) -> None:
    """Checks that a key comes with the response that claims it."""
    if idempotency_key is not None and response_id is None:
        raise invalid("response_id", "'idempotency_key' needs 'response_id': the response that it belongs to.")


def check_in_tree(approval_ids: Sequence[str], response_id: str, field: str) -> None:
    """Checks that approvals belong to the tree of a response."""
    for each in approval_ids:
        if item_tag(each) != tree_tag(response_id):
            raise invalid(field, f"'{each}' belongs to another tree than '{response_id}': their tags differ.")


def utf8_length(text: str) -> int:
    """The length in UTF-8; 0 for text with lone surrogates, which has no encoding."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return 0


def _text_up_to(most: int) -> Check:
    return fitting(lambda text: 1 <= utf8_length(text) <= most, f"1 to {most} bytes of text")


def _id_with(prefix: str, pattern: re.Pattern[str]) -> Check:
    return fitting(pattern.fullmatch, f"'{prefix}' followed by 48 lower-case hexadecimal digits")


def _is_reason(text: str) -> bool:
    return len(text) <= limits.JOB_REASON_CHARS_MAX and (not text or utf8_length(text) > 0)


check_response_id = _id_with("resp_", RESPONSE_ID)
check_holder = _text_up_to(limits.HOLDER_BYTES_MAX)

Tenant = Annotated[str, fitting(TENANT.fullmatch, "1 to 128 printable ASCII characters without spaces")]
ResponseId = Annotated[str, check_response_id]
ConversationId = Annotated[str, _id_with("conv_", CONVERSATION_ID)]
ApprovalId = Annotated[str, _id_with("mcpr_", APPROVAL_ID)]
PromptId = Annotated[str, _id_with("pmpt_", PROMPT_ID)]
SessionId = Annotated[str, fitting(SESSION_ID.fullmatch, "1 to 128 letters, digits, underscores and hyphens")]
ItemId = Annotated[str, fitting(utf8_length, "the id of an item")]
Cursor = Annotated[str, fitting(utf8_length, "a 'next_cursor' of an earlier page")]  # the store checks the rest
Holder = Annotated[str, check_holder]
IdempotencyKey = Annotated[str, _text_up_to(limits.IDEMPOTENCY_KEY_BYTES_MAX)]
QueueName = Annotated[str, name_up_to(limits.QUEUE_NAME_CHARS_MAX)]
Reason = Annotated[str, fitting(_is_reason, f"text of at most {limits.JOB_REASON_CHARS_MAX} characters")]

Json = Annotated[bytes, check_given]
LeaseTtlMs = Annotated[int, within(limits.LEASE_TTL_MS_MIN, limits.LEASE_TTL_MS_MAX)]
WaitMs = Annotated[int, within(0, limits.LEASE_WAIT_MS_MAX)]
TtlMs = Annotated[int, within(1, TTL_MS_MAX)]
Version = Annotated[int, within(1, INT64_MAX)]
PageLimit = Annotated[int, within(1, limits.PAGE_ITEMS_MAX)]
ListLimit = Annotated[int, within(1, limits.LIST_ITEMS_MAX)]
MaxDepth = Annotated[int, within(1, limits.CHAIN_DEPTH_MAX)]
MaxBytes = Annotated[int, within(1, limits.CHAIN_BYTES_MAX)]


# ---- Types with annotations ----


@cache
def check_of(hint: Any) -> Check | None:
    """The check of a type with annotations; None: every value of the type is valid."""
    if get_origin(hint) is Annotated:
        base, *checks = get_args(hint)
        return _all_of([check_of(base), *checks])
    if get_origin(hint) in (Union, UnionType):
        (hint,) = (each for each in get_args(hint) if each is not NoneType)
        return check_of(hint)
    if is_dataclass(hint):
        return _members_of(hint)
    elements = get_args(hint)
    return _each(check_of(elements[0])) if elements else None


def _all_of(checks: Sequence[Check | None]) -> Check | None:
    made = [each for each in checks if each is not None]
    if len(made) < 2:
        return made[0] if made else None

    def check_all(value: Any, field: str) -> None:
        for check in made:
            check(value, field)

    return check_all


def _each(check: Check | None) -> Check | None:
    """Makes the check of a list, whose elements errors name `FIELD[INDEX]`."""
    if check is None:
        return None

    def check_each(values: Sequence[Any], field: str) -> None:
        for index, value in enumerate(values):
            check(value, f"{field}[{index}]")

    return check_each


def _members_of(cls: Any) -> Check | None:
    """Makes the check of a dataclass: of each member that is neither None nor its default, and then of all of them.
    Errors name a member `FIELD.MEMBER`, or `MEMBER` if `field` is empty."""
    hints = get_type_hints(cls, include_extras=True)
    checks = [
        (member.name, check, member.default)
        for member in fields(cls)
        if (check := check_of(hints[member.name])) is not None
    ]
    check_together = getattr(cls, "check", None)
    if not checks and check_together is None:
        return None

    @cache  # a few fields each
    def behind(field: str) -> Sequence[tuple[str, Check, Any, str]]:
        return [(name, check, default, part(field, name)) for name, check, default in checks]

    def check_members(value: Any, field: str) -> None:
        for name, check, default, at in behind(field):
            member = getattr(value, name)
            if member is not None and member is not default:
                check(member, at)
        if check_together is not None:
            check_together(value, field)

    return check_members
