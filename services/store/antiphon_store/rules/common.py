"""Validation of ids, sizes, counts, times and records. Checks raise InvalidRequest or TooLarge with the field's name.

`arguments` applies the checks to every call of the service. Only `check_content` parses JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from antiphon_core import limits
from antiphon_core.errors import InvalidRequest, TooLarge
from antiphon_core.ids import is_conversation_id, is_prompt_id, is_response_id, is_session_id, is_tenant, tree_tag
from antiphon_core.jsons import kind, parse_array, parse_object
from antiphon_core.ports.store import Fence, Precondition, Record, TurnCommit, TurnRequest

Check = Callable[[Any, str], None]  # of a value, and the name that errors give it

INT64_MAX = 2**63 - 1
FINGERPRINT_BYTES = 32
TTL_MS_MAX = 10 * 366 * 24 * 3600 * 1000  # ten years, so that sums stay in 64 bits; None means for ever


def check_tenant(tenant: str, field: str = "tenant") -> None:
    if not is_tenant(tenant):
        raise invalid(field, "A tenant is 1 to 128 printable ASCII characters without spaces.")


def prefixed(prefix: str, fits: Callable[[str], bool]) -> Check:
    """Makes the check of an id."""

    def check_id(value: str, field: str) -> None:
        if not fits(value):
            raise invalid(field, f"'{field}' must be '{prefix}' followed by 48 lower-case hexadecimal digits.")

    return check_id


check_response_id = prefixed("resp_", is_response_id)
check_conversation_id = prefixed("conv_", is_conversation_id)
check_prompt_id = prefixed("pmpt_", is_prompt_id)


def check_session_id(session_id: str, field: str) -> None:
    if not is_session_id(session_id):
        raise invalid(field, f"'{field}' must be 1 to 128 letters, digits, underscores and hyphens.")


def check_range(value: int, low: int, high: int, field: str) -> None:
    if not low <= value <= high:
        code = "integer_below_min_value" if value < low else "integer_above_max_value"
        raise InvalidRequest(f"'{field}' must be from {low} to {high}, but is {value}.", field=field, code=code)


def within(low: int, high: int) -> Check:
    """Makes the check of a number."""
    return lambda value, field: check_range(value, low, high, field)


def each_of(check: Check, *, most: int) -> Check:
    """Makes the check of a list of 1 to `most` values."""

    def check_all(values: Sequence[Any], field: str) -> None:
        check_range(len(values), 1, most, field)
        for index, value in enumerate(values):
            check(value, f"{field}[{index}]")

    return check_all


def check_lease_ttl(ttl_ms: int, field: str) -> None:
    check_range(ttl_ms, limits.LEASE_TTL_MS_MIN, limits.LEASE_TTL_MS_MAX, field)


check_ttl = within(1, TTL_MS_MAX)


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


def size_of(record: Record) -> int:
    """The bytes of body and items."""
    return len(record.body) + len(record.input_items) + len(record.output_items)


def is_text(text: str) -> bool:
    """Whether the text is not empty and has a UTF-8 encoding."""
    return _utf8_length(text) > 0


def check_text(text: str, field: str) -> None:
    """Checks the id of an item: any text that the wire can carry."""
    if not is_text(text):
        raise invalid(field, f"'{field}' must be the id of an item.")


def check_holder(holder: str, field: str = "holder") -> None:
    if not 1 <= _utf8_length(holder) <= limits.HOLDER_BYTES_MAX:
        raise invalid(field, f"'{field}' must be 1 to {limits.HOLDER_BYTES_MAX} bytes of text.")


def check_fence(fence: Fence, field: str) -> None:
    check_session_id(fence.session_id, f"{field}.session_id")
    check_range(fence.token, 1, INT64_MAX, f"{field}.token")


def check_precondition(condition: Precondition, field: str = "precondition") -> None:
    if condition.version is not None:
        check_range(condition.version, 0, INT64_MAX, f"{field}.version")
    if condition.fence is not None:
        check_fence(condition.fence, f"{field}.fence")


def check_key(idempotency_key: str, field: str = "idempotency_key") -> None:
    most = limits.IDEMPOTENCY_KEY_BYTES_MAX
    if not 1 <= _utf8_length(idempotency_key) <= most:
        raise invalid(field, f"'{field}' must be 1 to {most} bytes of text.")


def require_owner(idempotency_key: str | None, response_id: str | None) -> None:
    """Checks that a key comes with the response that claims it."""
    if idempotency_key is not None and response_id is None:
        raise invalid("response_id", "'idempotency_key' needs 'response_id': the response that it belongs to.")


def check_record(record: Record, field: str = "record") -> None:
    """Checks ids, that they are of one tree, and the size."""
    check_response_id(record.id, f"{field}.id")
    if record.parent_id is not None:
        check_response_id(record.parent_id, f"{field}.parent_id")
        _check_kinship(record.id, record.parent_id, f"{field}.parent_id")
        if record.parent_id == record.id:
            raise invalid(f"{field}.parent_id", "A response cannot continue itself.")
    if record.session_id is not None:
        check_session_id(record.session_id, f"{field}.session_id")
        _check_kinship(record.id, record.session_id, f"{field}.session_id")
    check_given(record.input_items, f"{field}.input_items")
    check_given(record.output_items, f"{field}.output_items")
    check_size("The response is", size_of(record), limits.RECORD_BYTES_MAX, field)


def check_content(record: Record) -> tuple[str, ...]:
    """Checks the JSON of a record, so that histories can join it without parsing, and returns the distinct ids of its
    items."""
    body = parse_object(record.body, field="record.body")
    if "output" in body:
        raise invalid(
            "record.body", "'record.body' must not have the member 'output': it belongs in 'record.output_items'."
        )
    item_ids = _check_items(record.input_items, "record.input_items")
    item_ids += _check_items(record.output_items, "record.output_items")
    return tuple(dict.fromkeys(item_ids))


def tight(record: Record) -> Record:
    """The record without white space around and right inside the brackets of its item arrays, where histories join
    them."""
    input_items, output_items = _tight(record.input_items), _tight(record.output_items)
    if input_items is record.input_items and output_items is record.output_items:
        return record
    return replace(record, input_items=input_items, output_items=output_items)


def check_turn_request(request: TurnRequest, _field: str) -> None:
    if request.previous_response_id is not None and request.session_id is not None:
        raise InvalidRequest(
            "'previous_response_id' and 'session_id' exclude each other.",
            field="previous_response_id",
            code="mutually_exclusive_parameters",
        )
    if request.previous_response_id is not None:
        check_response_id(request.previous_response_id, "previous_response_id")
    if request.session_id is not None:
        check_session_id(request.session_id, "session_id")
        check_holder(request.holder)
        check_lease_ttl(request.lease_ttl_ms, "lease_ttl_ms")
        check_range(request.wait_ms, 0, limits.LEASE_WAIT_MS_MAX, "wait_ms")
    check_range(request.max_depth, 1, limits.CHAIN_DEPTH_MAX, "max_depth")
    check_range(request.max_bytes, 1, limits.CHAIN_BYTES_MAX, "max_bytes")
    if request.idempotency_key is not None:
        check_key(request.idempotency_key)
    if request.response_id is not None:
        check_response_id(request.response_id, "response_id")
    require_owner(request.idempotency_key, request.response_id)
    if len(request.fingerprint) != FINGERPRINT_BYTES and (request.fingerprint or request.idempotency_key is not None):
        raise invalid("fingerprint", f"'fingerprint' must be {FINGERPRINT_BYTES} bytes, a SHA-256.")


def check_turn_commit(commit: TurnCommit, _field: str) -> None:
    check_record(commit.record)
    if commit.ttl_ms is not None:
        check_ttl(commit.ttl_ms, "ttl_ms")
    if commit.idempotency_key is not None:
        check_key(commit.idempotency_key)
    check_precondition(commit.precondition)
    if commit.fence is not None:
        check_fence(commit.fence, "fence")
        if commit.fence.session_id != commit.record.session_id:
            raise invalid(
                "fence.session_id", "A turn is committed under the fence of the session that its record names."
            )


def _check_kinship(response_id: str, relative: str, field: str) -> None:
    """Checks that a response's parent or conversation has the tree tag of the response."""
    tag = tree_tag(relative)
    if tag is not None and tag != tree_tag(response_id):
        raise invalid(field, f"'{field}' belongs to another tree than 'record.id': their tags differ.")


def _check_items(items: bytes, field: str) -> list[str]:
    item_ids = []
    for index, item in enumerate(parse_array(items, field=field)):
        if not isinstance(item, dict):
            path = f"{field}[{index}]"
            raise invalid(path, f"'{path}' must be a JSON object, but is {kind(item)}.", code="invalid_type")
        if not isinstance(item.get("id"), str):
            path = f"{field}[{index}].id"
            raise invalid(path, f"'{path}' must be a string.", code="invalid_type")
        item_ids.append(item["id"])
    return item_ids


def _tight(array: bytes) -> bytes:
    ends = array[:1] + array[-1:]
    if ends == b"[]" and not array[1:2].isspace() and not array[-2:-1].isspace():
        return array
    return b"[" + array.strip()[1:-1].strip() + b"]"


def _utf8_length(text: str) -> int:
    """The length in UTF-8; 0 for text with lone surrogates, which has no encoding."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return 0


def invalid(field: str, message: str, *, code: str = "invalid_value") -> InvalidRequest:
    """The error for the value of a field."""
    return InvalidRequest(message, field=field, code=code)
