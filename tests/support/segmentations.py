"""Other ids of the same text, as models write them: a token in two, where the vocabulary has both parts."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from antiphon_translator.tokenizer.tokens import ModelTokenizer


def split_some(tokenizer: ModelTokenizer, ids: Sequence[int], chance: Random, share: float = 0.3) -> list[int]:
    """Splits about `share` of the ids in two. Control tokens stay whole, and the text stays the same."""
    written: list[int] = []
    for token_id in ids:
        token = tokenizer.library.id_to_token(token_id) or ""
        if (
            token_id not in tokenizer.added
            and len(token) > 1
            and not token.startswith("<0x")
            and chance.random() < share
        ):
            at = chance.randrange(1, len(token))
            parts = [tokenizer.token_id(token[:at]), tokenizer.token_id(token[at:])]
            if all(part is not None and part not in tokenizer.added for part in parts):
                written += [part for part in parts if part is not None]
                continue
        written.append(token_id)
    return written
