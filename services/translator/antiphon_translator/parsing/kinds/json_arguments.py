"""The JSON arguments of a call: an object, which streams as the model writes it, or a string that holds an object.

Models encode their arguments twice at times, as the `arguments` of a chat message are: `"{\\"a\\": 1}"`. The content of
the string is taken then. `null` and an empty string are no arguments.
"""

from __future__ import annotations

import json
from typing import Any

from antiphon_translator.parsing import surrogate_escapes
from antiphon_translator.parsing.cursor import Malformed, Reader
from antiphon_translator.parsing.reading import Reading


def read(reading: Reading) -> Reader[None]:
    """Emits the arguments of the call that was begun. Malformed: they are no JSON object. They are emitted as they are
    written then."""
    cursor, out = reading.cursor, reading.out
    yield from cursor.spaces()
    if (yield from cursor.peek()) == "{":
        is_whole = yield from cursor.json_value(out.arguments)
    else:
        held: list[str] = []
        is_whole = yield from cursor.json_value(held.append)
        written = "".join(held)
        arguments = unwrap(written) if is_whole else None
        out.arguments(written if arguments is None else arguments)
        is_whole = arguments is not None
    if not is_whole:
        raise Malformed


def unwrap(written: str) -> str | None:
    """The JSON of an object from arguments that may be encoded twice. None: they hold no object."""
    while True:
        value = _decode(written)
        if isinstance(value, dict):
            return written
        if value in (None, ""):
            return "{}"
        if not isinstance(value, str):
            return None
        written = value.strip()


def _decode(written: str) -> Any:
    """The value of a JSON text; False if it is none."""
    try:
        return json.loads(
            surrogate_escapes.replace_escapes(written), parse_int=float
        )  # int() limits the number of digits
    except (ValueError, RecursionError):
        return False
