"""Reads the responses of one ModelStreamInfer RPC and passes them on as chunks. No I/O: bytes come in by a call."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon_core.errors import EngineFault
from antiphon_translator.engines import triton_errors
from antiphon_translator.engines.base import Deliver
from antiphon_translator.engines.stream_budget import PIECE_CHARS, StreamBudget
from antiphon_translator.engines.token_timeouts import TokenTimer
from antiphon_translator.engines.triton_signature import Reader
from antiphon_translator.engines.triton_wire import is_final, parse_response
from antiphon_translator.generation import EngineChunk

MESSAGE_BYTES = 64
"""The bytes that a message counts as beside its own: to parse an empty one takes as long as to skip these."""


class TritonResponses:
    """Reads the responses of one generation until it is over: at an error, or when nothing more is wanted. Later
    responses are dropped.

    The RPC may still run then. `timer` ends it: within `end_grace_s` if only the end of the stream is still to come, at
    once otherwise.
    """

    def __init__(self, reader: Reader, deliver: Deliver, timer: TokenTimer, *, model: str, end_grace_s: float) -> None:
        self.is_over = False
        self.error: Exception | None = None
        """The error that ended the generation, if one did."""
        self._reader = reader
        self._deliver = deliver
        self._timer = timer
        self._model = model
        self._end_grace_s = end_grace_s
        self._is_final = False
        self._budget = StreamBudget(f"The Triton server of model '{model}'")

    def receive(self, messages: Sequence[bytes]) -> None:
        """Delivers the chunks of these messages in one call. Never raises: an error is kept in `error`."""
        if self.is_over:
            return
        try:
            is_wanted = self._take(messages)
        except Exception as error:  # noqa: BLE001 - the connection has other streams; the engine raises it
            self.error = error
            is_wanted = False
        if not is_wanted:
            self.is_over = True
            self._timer.end_within(self._end_grace_s if self._reader.is_complete else 0)

    def finish(self) -> None:
        """Delivers the text that was held back, after the RPC has ended without an error.

        Raises:
            EngineFault: the server did not mark a response as the final one.
        """
        if self.is_over:
            return
        if not self._is_final:
            raise EngineFault(f"The Triton server of model '{self._model}' ended the stream before the generation.")
        last = self._reader.finish()
        if last is not None:
            self._deliver((last,))

    def _take(self, messages: Sequence[bytes]) -> bool:
        """Returns whether more is wanted. The error of a message is raised after the messages before it are delivered,
        if more is wanted then."""
        chunks: list[EngineChunk] = []
        try:
            is_wanted = self._read(messages, chunks)
        except Exception:
            if self._pass_on(chunks):
                raise
            return False
        return self._pass_on(chunks) and is_wanted

    def _read(self, messages: Sequence[bytes], chunks: list[EngineChunk]) -> bool:
        """Adds the chunks of the messages to `chunks`. Returns whether the generation goes on."""
        idle_bytes = 0
        for message in messages:
            chunk = self._read_message(message)
            if chunk is None:
                idle_bytes += MESSAGE_BYTES + len(message)
                continue
            chunks.append(chunk)
            if chunk.finish is not None:
                return False
        self._budget.note(idle_bytes, PIECE_CHARS * len(chunks))
        return True

    def _read_message(self, message: bytes) -> EngineChunk | None:
        """The chunk of a message; None if it has no content."""
        chunk = self._reader.read_repeated(message)
        if chunk is not None:
            self._is_final = False
            return chunk
        response = parse_response(message)
        if response.error_message:
            raise triton_errors.from_text(response.error_message, model=self._model)
        self._is_final = is_final(response.infer_response)
        chunk = self._reader.read(response.infer_response)
        if chunk is not None and not self._is_final:
            self._reader.learn(message, chunk)
        return chunk

    def _pass_on(self, chunks: Sequence[EngineChunk]) -> bool:
        if not chunks:
            return True
        self._timer.token_came()
        return self._deliver(chunks)
