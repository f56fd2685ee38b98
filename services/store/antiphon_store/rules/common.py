"""Checks of single values, and checks made of checks. They raise InvalidRequest or TooLarge with the field's name.

`rules.values` has the checks of the ports' dataclasses; `arguments` applies both to every call of the service.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest, TooLarge
from antiphon_core.ids import is_conversation_id, is_prompt_id, is_response_id, is_session_id, is_tenant

Check = Callable[[Any, str], None]  # of a value, and the name that errors give it

INT64_MAX = 2**63 - 1
TTL_MS_MAX = 10 * 366 * 24 * 3600 * 1000  # ten years, so that sums stay in 64 bits; None means for ever


def invalid(field: str, message: str, *, code: str = "invalid_value") -> InvalidRequest:
    """The error for the value of a field."""
    return InvalidRequest(message, field=field, code=code)


# ---- Checks made of a few words, or of other checks ----


def fitting(fits: Callable[[str], object], must_be: str) -> Check:
    """Makes the check of a text."""

    def check_text(text: str, field: str) -> None:
        if not fits(text):
            raise invalid(field, f"'{field}' must be {must_be}.")

    return check_text


def within(low: int, high: int) -> Check:
    """Makes the check of a number."""

    def check_number(value: int, field: str) -> None:
        if not low <= value <= high:
            code = "integer_below_min_value" if value < low else "integer_above_max_value"
            raise invalid(field, f"'{field}' must be from {low} to {high}, but is {value}.", code=code)

    return check_number


def each_of(check: Check, *, most: int, least: int = 1) -> Check:
    """Makes the check of a list of `least` to `most` values."""

    def check_all(values: Sequence[Any], field: str) -> None:
        check_range(len(values), least, most, field)
        for index, value in enumerate(values):
            check(value, f"{field}[{index}]")

    return check_all


def each_member(*together: Check, **members: Check) -> Check:
    """Makes the check of a dataclass: first of each member that is not None, then, with `together`, of the whole.
    Errors name a member `FIELD.MEMBER`, or `MEMBER` if `field` is empty."""

    @cache  # a few fields each
    def behind(field: str) -> Sequence[tuple[str, Check, str]]:
        return [(name, check, part(field, name)) for name, check in members.items()]

    def check_members(value: Any, field: str) -> None:
        for name, check, at in behind(field):
            member = getattr(value, name)
            if member is not None:
                check(member, at)
        for check in together:
            check(value, field)

    return check_members


def part(field: str, name: str) -> str:
    """The name of a member of a field."""
    return f"{field}.{name}" if field else name


# ---- Checks of single values ----


def utf8_length(text: str) -> int:
    """The length in UTF-8; 0 for text with lone surrogates, which has no encoding."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return 0


def _text_up_to(most: int) -> Check:
    return fitting(lambda text: 1 <= utf8_length(text) <= most, f"1 to {most} bytes of text")


def name_up_to(most: int) -> Check:
    """Makes the check of a name that the caller chooses: of a queue, a bucket, a slot."""
    is_name = re.compile(rf"[A-Za-z0-9._-]{{1,{most}}}").fullmatch
    return fitting(is_name, f"1 to {most} letters, digits, dots, underscores and hyphens")


def _id_with(prefix: str, fits: Callable[[str], bool]) -> Check:
    return fitting(fits, f"'{prefix}' followed by 48 lower-case hexadecimal digits")


check_tenant = fitting(is_tenant, "1 to 128 printable ASCII characters without spaces")
check_response_id = _id_with("resp_", is_response_id)
check_conversation_id = _id_with("conv_", is_conversation_id)
check_prompt_id = _id_with("pmpt_", is_prompt_id)
check_session_id = fitting(is_session_id, "1 to 128 letters, digits, underscores and hyphens")
check_item_id = fitting(utf8_length, "the id of an item")
check_cursor = fitting(utf8_length, "a 'next_cursor' of an earlier page")  # `cursors.decode` checks the rest
check_holder = _text_up_to(limits.HOLDER_BYTES_MAX)
check_key = _text_up_to(limits.IDEMPOTENCY_KEY_BYTES_MAX)
check_queue = name_up_to(limits.QUEUE_NAME_CHARS_MAX)
check_reason = fitting(
    lambda reason: len(reason) <= limits.JOB_REASON_CHARS_MAX and (not reason or utf8_length(reason)),
    f"text of at most {limits.JOB_REASON_CHARS_MAX} characters",
)
check_lease_ttl = within(limits.LEASE_TTL_MS_MIN, limits.LEASE_TTL_MS_MAX)
check_ttl = within(1, TTL_MS_MAX)


def check_range(value: int, low: int, high: int, field: str) -> None:
    within(low, high)(value, field)


def lifetime_ms(ttl_ms: int | None, default_s: int | None, most_s: int | None) -> int | None:
    """A lifetime from now: `ttl_ms` if it is given, else the default. None: for ever. InvalidRequest: it is over the
    policy's limit."""
    if ttl_ms is None:
        return None if default_s is None else default_s * 1000
    if most_s is not None:
        check_range(ttl_ms, 1, most_s * 1000, "ttl_ms")
    return ttl_ms


def check_given(data: bytes, field: str) -> None:
    """Checks that bytes are not empty: on the wire, an empty field is a missing one."""
    if not data:
        raise invalid(field, f"'{field}' is missing.")


def check_size(subject: str, size_bytes: int, most: int, field: str) -> None:
    """TooLarge. `subject` begins its message, such as "The items are"."""
    if size_bytes > most:
        raise TooLarge(f"{subject} {size_bytes} bytes long; at most {most} are stored.", field=field)


def check_prompt_content(content: bytes, field: str) -> None:
    check_given(content, field)
    check_size("The prompt is", len(content), limits.PROMPT_CONTENT_BYTES_MAX, field)


def require_owner(idempotency_key: str | None, response_id: str | None) -> None:
    """Checks that a key comes with the response that claims it."""
    if idempotency_key is not None and response_id is None:
        raise invalid("response_id", "'idempotency_key' needs 'response_id': the response that it belongs to.")
