"""Bounds the streams in which one process sends the same response. Each reads the event log by itself and gets every
event: 300 readers of one running response delayed the turns of another tenant three to seven times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from antiphon_core.errors import RequestRateExceeded
from antiphon_core.telemetry import metrics

RETRY_MS = 2_000


class ResponseReaders:
    """Counts the readers of each response. A process has one instance."""

    def __init__(self, most: int = 0) -> None:
        """`most`: the setting readers_per_response; 0 for no limit."""
        self._most = most
        self._readers = Counter[tuple[str, str]]()

    @contextmanager
    def one_more(self, tenant: str, response_id: str) -> Iterator[None]:
        """Counts a reader in the block. RequestRateExceeded: the response has too many."""
        read = tenant, response_id
        if self._most and self._readers[read] >= self._most:
            metrics.ADMISSION_REJECTED.of("readers").add()
            raise RequestRateExceeded(
                f"Rate limit reached on streams of '{response_id}': {self._most} are open at once (the setting "
                "edge.readers_per_response). Please try again when one of them has ended, or read the response without "
                "'stream'.",
                retry_after_ms=RETRY_MS,
            )
        self._readers[read] += 1
        try:
            yield
        finally:
            self._readers[read] -= 1
            if not self._readers[read]:
                del self._readers[read]
