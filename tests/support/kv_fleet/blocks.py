"""Prompts as chains of blocks: the digest of a block depends on all tokens up to its end, as in KV caches."""

from __future__ import annotations

from hashlib import sha256

BLOCK_TOKENS = 128


class Chain:
    """A growing sequence of tokens. `blocks` are the digests of its full blocks. `root` separates salts and adapters,
    which share no block."""

    def __init__(self, root: bytes = b"") -> None:
        self.blocks: list[bytes] = []
        self._tail = 0
        self._state = sha256(root).digest()
        """The digest of everything so far."""

    @property
    def tokens(self) -> int:
        return len(self.blocks) * BLOCK_TOKENS + self._tail

    def copy(self) -> Chain:
        made = Chain()
        made.blocks, made._tail, made._state = self.blocks.copy(), self._tail, self._state
        return made

    def add(self, tokens: int, content: bytes) -> Chain:
        """Appends the tokens of a text, which `content` identifies. Returns the chain itself."""
        at = 0
        while at < tokens:
            taken = min(BLOCK_TOKENS - self._tail, tokens - at)
            self._state = sha256(self._state + content + at.to_bytes(4, "big") + taken.to_bytes(2, "big")).digest()
            at += taken
            self._tail += taken
            if self._tail == BLOCK_TOKENS:
                self.blocks.append(self._state)
                self._tail = 0
        return self
