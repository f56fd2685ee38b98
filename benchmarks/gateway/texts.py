"""Texts for requests and answers."""

from __future__ import annotations

STORY = (
    "The ferry left the harbour at six, while the lamps along the quay were still lit. On its upper deck an old man "
    "counted the gulls and wrote their number into a small book, as he had done on every crossing for eleven years. "
    "Nobody had asked him to. The captain, who knew him well, slowed down a little where the birds were many. That "
    "morning there were forty-two, and one of them sat down beside the book as if it wanted to check the sum. "
)


def sentence(number: int) -> str:
    """Returns a user's message for one turn: about twenty tokens, different for each number."""
    return f"{number}. The old man counted the gulls again and wrote their number into his small book. Why?"


def long_text(characters: int, number: int) -> str:
    """Returns a text of this length, different for each number."""
    text = f"{number}. " + STORY * (characters // len(STORY) + 1)
    return text[:characters]
