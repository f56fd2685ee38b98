"""Salts of tenants: what they depend on, and that every call of the translator has one."""

from __future__ import annotations

import base64
import hashlib
import hmac
from pathlib import Path
from typing import Any

import pytest

from antiphon_core.config import SettingsError
from antiphon_core.ports.translator import Turn
from antiphon_core.sealing_keys import SealingKeys
from antiphon_edge.cache_salts import CacheSalts, SaltingTranslator

KEY = bytes(range(32))
TURN = Turn("resp_1", 1, b"{}", tenant="acme")


def salts(epoch: str = "1", key: bytes = KEY) -> CacheSalts:
    return CacheSalts(SealingKeys(epoch, {epoch: key}))


def test_salt_is_an_hmac_of_tenant_and_epoch_with_their_lengths() -> None:
    message = b"\0\0\0\x0cantiphon-kv1" + b"\0\0\0\x04acme" + b"\0\0\0\x011"
    wanted = base64.urlsafe_b64encode(hmac.new(KEY, message, hashlib.sha256).digest()).rstrip(b"=")
    assert salts().of_tenant("acme") == wanted.decode()


def test_tenants_epochs_and_secrets_have_salts_of_their_own() -> None:
    made = [
        salts().of_tenant("a"),
        salts().of_tenant("b"),
        salts("2").of_tenant("a"),
        salts(key=KEY[::-1]).of_tenant("a"),
    ]
    made += [salts("1").of_tenant("a1"), salts("11").of_tenant("a")]  # alike without their lengths
    assert len(set(made)) == len(made)
    assert salts().of_tenant("a") == made[0]


def test_new_first_key_of_the_file_is_a_new_epoch(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.touch(mode=0o600)
    path.write_text(f"1 {KEY.hex()}\n")
    first = CacheSalts.of(path, grace_s=1, setting="edge.cache_salt_keys_file")
    assert first.of_tenant("acme") == salts("1").of_tenant("acme")
    path.write_text(f"2 {KEY.hex()}\n1 {KEY.hex()}\n")
    second = CacheSalts.of(path, grace_s=1, setting="edge.cache_salt_keys_file")
    assert second.of_tenant("acme") == salts("2").of_tenant("acme")
    path.write_text("")
    with pytest.raises(SettingsError, match="holds no keys"):
        CacheSalts.of(path, grace_s=1, setting="edge.cache_salt_keys_file")


class NotedTurns:
    """A translator that notes the turns of all calls."""

    def __init__(self) -> None:
        self.turns: list[Turn] = []

    async def generate(self, turn: Turn, receive: Any, **_: Any) -> None:
        self.turns.append(turn)

    async def count_tokens(self, turn: Turn) -> int:
        self.turns.append(turn)
        return 1

    async def check(self, turn: Turn) -> None:
        self.turns.append(turn)


async def test_every_call_about_a_turn_has_the_salt_of_its_tenant() -> None:
    inner: Any = NotedTurns()
    salting = SaltingTranslator(inner, salts())
    await salting.generate(TURN, lambda _: None)
    await salting.count_tokens(TURN)
    await salting.check(TURN)
    assert [turn.cache_salt for turn in inner.turns] == [salts().of_tenant("acme")] * 3
    assert salts().of_tenant("acme") not in repr(inner.turns), "a salt must not be logged with its turn"
