"""The number of tokens in a block of a Triton server's KV cache, by which TensorRT-LLM counts cached tokens.

A profile may say it. Otherwise it is learned from the server's metrics, in the background: no turn waits for a port
that a network policy may close. Until it is known, cached tokens are not reported.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from antiphon_core import offload
from antiphon_core.errors import AntiphonError
from antiphon_translator.engines import metrics_page, replica_metrics
from antiphon_translator.models.profiles import ModelProfile

log = logging.getLogger(__name__)


class KvBlocks:
    """The block size of one endpoint. `tokens` is 0 until it is known."""

    def __init__(self, profile: ModelProfile) -> None:
        self.tokens = profile.kv_block_tokens or 0
        self._profile = profile
        self._learning: asyncio.Task[None] | None = None

    def learn(self) -> None:
        """Begins to learn the size, if it is not known. Call again when the server may have changed."""
        if not self.tokens and (self._learning is None or self._learning.done()):
            self._learning = asyncio.create_task(self._learn())

    async def close(self) -> None:
        if self._learning is not None:
            self._learning.cancel()
            await asyncio.wait({self._learning})

    async def _learn(self) -> None:
        profile = self._profile
        host = profile.endpoint.removeprefix("dns:///").rpartition(":")[0].strip("[]")
        try:
            page = await metrics_page.fetch(host, profile.metrics_port, timeout_s=profile.probe_timeout_s)
        except AntiphonError as error:
            log.info("model '%s': its cached tokens are not reported: %s", profile.name, error.message)
            return
        read = partial(replica_metrics.read, page, profile.triton_model)
        if found := (await offload.run(read, size_bytes=len(page))).block_tokens:
            self.tokens = int(found)
            log.info("model '%s': a block of its KV cache has %d tokens", profile.name, self.tokens)
