"""Text of models and users for a terminal, which would execute the escape sequences in it: they set titles, write to
the clipboard or hide text."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tabs and line feeds


def visible(text: str) -> str:
    """Escapes the control characters in a text. Line ends of Windows become line feeds."""
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text.replace("\r\n", "\n"))
