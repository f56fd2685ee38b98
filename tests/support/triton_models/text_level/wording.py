"""Decodes token ids to text, and finds stop words in it. For byte-level BPE only, which the packaged model has."""

import codecs


def byte_alphabet():
    """The byte for each character of a byte-level vocabulary. Printable characters stand for their own byte."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    shifted = {chr(256 + number): byte for number, byte in enumerate(others)}
    return {chr(byte): byte for byte in printable} | shifted


class Vocabulary:
    """The vocabulary of the model: bytes of tokens, and ids of texts."""

    def __init__(self, vocab):
        self._vocab = vocab
        self._bytes = byte_alphabet()

    def bytes_of(self, token):
        text = self._vocab.get_text(token)
        return text.encode() if self._vocab.is_control(token) else bytes(self._bytes[char] for char in text)

    def ids_of(self, text):
        """The ids of a text. Names of control tokens in it become those tokens."""
        return list(self._vocab.tokenize(text, False, True))

    @property
    def end_id(self):
        return int(self._vocab.token_eos())


class Wording:
    """The text of one generation, decoded token by token.

    With `whole`, a character of several tokens comes when it is complete; otherwise each token is decoded by itself.
    With `strips`, stop words are removed: text that may begin one is held back, and `stopped` says that one was found.
    """

    def __init__(self, stop_words, *, whole, strips):
        self._decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._whole = whole
        self._stop_words = [word for word in stop_words if word] if strips else []
        self._hold = max(map(len, self._stop_words), default=1) - 1
        self._text = ""
        self._given = 0
        self.is_stopped = False

    def add(self, data):
        """Takes the bytes of a token, and returns the text that they add; empty once a stop word is complete."""
        self._text += self._decode(data) if self._whole else data.decode("utf-8", "replace")
        found = [at for word in self._stop_words if (at := self._text.find(word)) >= 0]
        if found:
            self.is_stopped = True
            self._text = self._text[: min(found)]
            return ""
        return self._take(self._hold)

    def finish(self, *, tells_cut_characters):
        """Returns the text that was held back."""
        if not self.is_stopped and tells_cut_characters:
            self._text += self._decode(b"", final=True)
        return self._take(0)

    @property
    def so_far(self):
        """All text that was returned so far."""
        return self._text[: self._given]

    def _take(self, hold):
        end = max(self._given, len(self._text) - hold)
        taken, self._given = self._text[self._given : end], end
        return taken
