"""Salts that keep the caches of tenants apart: an engine shares no cached prompt between two salts.

A shared cache shows one tenant what another one has sent, by the time that a prompt takes. A salt is an HMAC of the
tenant under a secret of the operator, so neither the translator nor the engine can tell whose it is, and nobody can
compute it who lacks the secret. The id of the key is the epoch: a new first line in the file of keys makes all that is
cached unreachable at once. Only translators whose profile isolates tenants pass a salt on (`kv_isolation`).
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from antiphon_core.flow import Flow
from antiphon_core.ports.translator import EndedTurn, Model, Receive, Resume, Translator, Turn
from antiphon_core.rpc.watched import Watched
from antiphon_core.sealing_keys import KeySource, SealingKeys

_PURPOSE = "antiphon-kv1"
_LENGTH_BYTES = 4


class CacheSalts:
    """The salts of all tenants. Unavailable, from its method: the file of keys has been unusable for too long."""

    def __init__(self, keys: KeySource) -> None:
        self._keys = keys

    @classmethod
    def of(cls, path: Path, *, grace_s: float, setting: str) -> CacheSalts:
        """Salts with the keys of a file, whose first one counts. SettingsError: the file cannot be used."""
        return cls(Watched([path], lambda: SealingKeys.read(path, "cache salt keys"), setting=setting, grace_s=grace_s))

    def of_tenant(self, tenant: str) -> str:
        keys = self._keys.get()
        message = b"".join(map(_with_length, (_PURPOSE, tenant, keys.current)))
        return urlsafe_b64encode(hmac.digest(keys.keys[keys.current], message, "sha256")).decode().rstrip("=")


def _with_length(text: str) -> bytes:
    """A text behind its length: joined without lengths, two different lists of texts could be the same bytes."""
    data = text.encode()
    return len(data).to_bytes(_LENGTH_BYTES, "big") + data


class SaltingTranslator:
    """A Translator (antiphon_core.ports.translator) that gives each turn the salt of its tenant."""

    def __init__(self, inner: Translator, salts: CacheSalts) -> None:
        self._inner = inner
        self._salts = salts

    async def generate(
        self,
        turn: Turn,
        receive: Receive,
        *,
        flow: Flow | None = None,
        resume: Resume | None = None,
        checkpoints: bool = False,
    ) -> None:
        await self._inner.generate(self._with_salt(turn), receive, flow=flow, resume=resume, checkpoints=checkpoints)

    async def count_tokens(self, turn: Turn) -> int:
        return await self._inner.count_tokens(self._with_salt(turn))

    async def check(self, turn: Turn) -> None:
        await self._inner.check(self._with_salt(turn))

    async def explain_cache(self, now: EndedTurn, compared: EndedTurn | None) -> bytes:
        return await self._inner.explain_cache(replace(now, turn=self._with_salt(now.turn)), compared)

    async def models(self) -> Sequence[Model]:
        return await self._inner.models()

    async def ready(self) -> None:
        await self._inner.ready()

    def _with_salt(self, turn: Turn) -> Turn:
        return replace(turn, cache_salt=self._salts.of_tenant(turn.tenant))
