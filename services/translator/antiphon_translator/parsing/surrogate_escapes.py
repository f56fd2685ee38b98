r"""Escapes of surrogates, such as `\ud83d`, in JSON or Python that a model wrote.

A pair of them is one character. A lone one is no character and cannot be encoded as UTF-8, so it becomes U+FFFD. They
are replaced before the text is decoded: in decoded text, a lone surrogate is a control token (alphabet.py).
"""

from __future__ import annotations

import re

_BEGINNING = r"\\(?:u|U0000)"  # Python also has escapes of eight digits
_HIGH = "[dD][89abAB][0-9a-fA-F]{2}"
_LOW = "[dD][c-fC-F][0-9a-fA-F]{2}"
# Any other escape is matched as well: the second backslash of `\\` begins none.
_ESCAPE = re.compile(
    rf"{_BEGINNING}(?P<high>{_HIGH}){_BEGINNING}(?P<low>{_LOW})|{_BEGINNING}(?:{_HIGH}|{_LOW})|\\.", re.DOTALL
)
_IS_HIGH = re.compile(_BEGINNING + _HIGH)
_IS_LOW = re.compile(_BEGINNING + _LOW)


def replace_escapes(source: str) -> str:
    """Replaces the escapes of surrogates by their characters; other escapes stay."""
    return _ESCAPE.sub(_character, source)


def is_high(escape: str) -> bool:
    """Whether an escape is the first of a pair."""
    return _IS_HIGH.fullmatch(escape) is not None


def is_low(escape: str) -> bool:
    """Whether an escape is the second of a pair."""
    return _IS_LOW.fullmatch(escape) is not None


def _character(escape: re.Match[str]) -> str:
    if escape["high"]:
        return bytes.fromhex(escape["high"] + escape["low"]).decode("utf-16-be")
    return escape.group() if len(escape.group()) == 2 else "\ufffd"
