from __future__ import annotations

import hmac
import logging
import random
import re
import string
from pathlib import Path
from typing import Any

import pytest

from antiphon_core.clock import ManualClock
from antiphon_core.config import SettingsError
from antiphon_core.errors import InvalidApiKey
from antiphon_core.rpc import watched
from antiphon_edge.callers import api_keys
from antiphon_edge.callers.api_keys import (
    ApiKey,
    KeyGuard,
    KeyRing,
    digest,
    parse_keys,
    read_keys,
    read_peppers,
    show_time,
)
from tests.support.api_keys import PEPPER, KeyFiles, id_of

LINE = f"0123456789ab acme {'0' * 64} 2026-11-21T20:38:00Z - -"
REFUSALS = re.compile(
    r"Incorrect API key provided: ak_[0-9a-f]{12}_\*\*\*\.|Incorrect API key provided\. Keys of this server begin .*"
)
NOON_MS = 1_795_262_400_000  # 2026-11-21T12:00:00Z


@pytest.fixture
def files(tmp_path: Path) -> KeyFiles:
    return KeyFiles(tmp_path)


def guard(files: KeyFiles, clock: ManualClock | None = None) -> KeyGuard:
    return KeyGuard(files.keys, files.pepper, clock=clock or ManualClock())


def test_valid_key_identifies_its_tenant(files: KeyFiles) -> None:
    secrets = {tenant: files.make(tenant) for tenant in ("acme", "globex")}
    key_guard = guard(files)
    assert {tenant: key_guard.identify(secret).tenant for tenant, secret in secrets.items()} == {
        "acme": "acme",
        "globex": "globex",
    }


def test_new_key_has_its_prefix_its_id_and_256_random_bits() -> None:
    drawn = {api_keys.new_key("0123456789ab") for _ in range(100)}
    assert len(drawn) == 100
    for key in drawn:
        prefix, key_id, secret = key.split("_")
        assert (prefix, key_id, len(bytes.fromhex(secret))) == ("ak", "0123456789ab", 32)


def test_secrets_and_pepper_are_neither_in_the_file_nor_in_a_repr(files: KeyFiles) -> None:
    secret = files.make("acme")
    kept = files.keys.read_text()
    assert secret.split("_")[2] not in kept
    assert PEPPER not in kept
    ring = KeyRing([PEPPER.encode()], read_keys(files.keys))
    assert PEPPER not in repr(ring)
    assert ring.keys[id_of(secret)].digest.hex() not in repr(ring)


def flipped(secret: str, bit: int) -> str:
    """The key with one bit flipped."""
    raw = bytearray(secret.encode())
    raw[bit // 8] ^= 1 << (bit % 8)
    return raw.decode("latin-1")


def test_ten_thousand_wrong_keys_are_all_rejected(files: KeyFiles) -> None:
    secret = files.make("acme")
    ring = KeyRing([PEPPER.encode()], read_keys(files.keys))
    draw = random.Random(1)
    wrong = [flipped(secret, bit) for bit in range(8 * len(secret))]
    digits = "0123456789abcdef"
    while len(wrong) < 6_000:  # the right id, another secret: only the digest differs
        wrong.append(secret[:16] + "".join(draw.choices(digits, k=64)))
    while len(wrong) < 8_000:  # the right secret under other ids
        wrong.append(f"ak_{''.join(draw.choices(digits, k=12))}_{secret[16:]}")
    while len(wrong) < 10_000:
        wrong.append("".join(draw.choices(string.printable, k=draw.randrange(100))))
    for given in [*wrong, secret.upper(), f" {secret}", f"{secret} ", f"{secret}\n", secret + "0", secret[:-1], ""]:
        with pytest.raises(InvalidApiKey) as caught:
            ring.identify(given, 0)
        assert REFUSALS.fullmatch(caught.value.message), caught.value.message
    assert ring.identify(secret, 0).tenant == "acme"


def test_digests_are_compared_in_constant_time_for_known_and_unknown_ids(
    files: KeyFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = files.make("acme")
    ring = KeyRing([PEPPER.encode()], read_keys(files.keys))
    compared: list[tuple[bytes, bytes]] = []

    def compare(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return False

    monkeypatch.setattr(hmac, "compare_digest", compare)
    for given in (secret, api_keys.new_key("ffffffffffff")):
        with pytest.raises(InvalidApiKey):
            ring.identify(given, 0)
    assert [len(one) for pair in compared for one in pair] == [32] * 4


def test_unknown_key_id_is_rejected_by_an_empty_key_ring(files: KeyFiles) -> None:
    ring = KeyRing([b"p" * 32], {})
    with pytest.raises(InvalidApiKey, match=r"Incorrect API key provided: ak_ffffffffffff_\*\*\*\."):
        ring.identify(api_keys.new_key("ffffffffffff"), 0)


def test_another_pepper_makes_the_keys_worthless(files: KeyFiles) -> None:
    secret = files.make("acme")
    files.pepper.write_text("x" * 32)
    with pytest.raises(InvalidApiKey):
        guard(files).identify(secret)


def test_expired_and_revoked_keys_are_rejected_with_the_reason(files: KeyFiles) -> None:
    clock = ManualClock(NOON_MS)
    expiring = files.make("acme", expires_at_ms=NOON_MS + 60_000)
    revoked = files.make("acme", revoked_at_ms=NOON_MS - 60_000)
    key_guard = guard(files, clock)
    assert key_guard.identify(expiring).state(clock.now_ms()) == "valid"
    with pytest.raises(InvalidApiKey, match=rf"ak_{id_of(revoked)}_\*\*\* is revoked"):
        key_guard.identify(revoked)
    clock.advance(60)
    with pytest.raises(InvalidApiKey, match="is expired"):
        key_guard.identify(expiring)
    with pytest.raises(InvalidApiKey, match="Incorrect API key"):
        key_guard.identify(expiring[:-1] + ("0" if expiring[-1] != "0" else "1"))


def test_changed_files_are_read_again_and_broken_ones_change_nothing(
    files: KeyFiles, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watched, "LOOK_INTERVAL_S", 0.0)
    old = files.make("acme")
    key_guard = guard(files)
    new = files.make("globex")
    assert key_guard.identify(new).tenant == "globex"
    files.keys.write_text("half a line")
    assert key_guard.identify(old).tenant == "acme"
    assert "cannot be used, the last content stays valid" in caplog.text
    files.keys.unlink()
    assert key_guard.identify(old).tenant == "acme"


@pytest.mark.parametrize("name", ["", "the ci runner", "läufer 2"])
@pytest.mark.parametrize("ends_at_ms", [None, NOON_MS])
def test_key_is_restored_from_its_line(name: str, ends_at_ms: int | None) -> None:
    key = ApiKey("0123456789ab", "acme/eu", bytes(range(32)), NOON_MS, ends_at_ms, ends_at_ms, name)
    assert parse_keys(key.line(), "keys") == {key.id: key}


def test_comments_and_empty_lines_are_ignored() -> None:
    assert list(parse_keys(f"# what\n\n  \n  # more\n{LINE}\r\n", "keys")) == ["0123456789ab"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("one two", "line 1: 2 words; it must begin with ID TENANT HMAC CREATED EXPIRES REVOKED"),
        (LINE.replace("ab acme", "AB acme"), "line 1: ID must be 12 hexadecimal digits"),
        (LINE.replace("acme", "ä"), "line 1: TENANT must be"),
        (LINE.replace("0" * 64, "0" * 63), "line 1: HMAC must be 64 hexadecimal digits"),
        (LINE + " " + "n" * 65, "line 1: NAME must be at most 64"),
        (LINE.replace("2026-11-21T20:38:00Z", "-"), "line 1: CREATED must be a time"),
        (LINE.replace("- -", "tomorrow -"), "line 1: a time must look like"),
        (LINE.replace("- -", "2026-11-21T20:38:00 -"), "line 1: a time must look like"),
        (f"{LINE}\n# x\n{LINE}", "line 3: an earlier line has the same id"),
    ],
)
def test_bad_line_is_reported_without_its_content(text: str, says: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse_keys(text, "keys")
    assert f"keys, {says}" in str(caught.value)
    assert "0" * 63 not in str(caught.value)


def test_unusable_keys_and_pepper_files_are_rejected_with_the_reason(files: KeyFiles) -> None:
    with pytest.raises(SettingsError, match="Cannot read the keys file"):
        read_keys(files.keys)
    files.keys.write_text("# nobody yet\n")
    with pytest.raises(SettingsError, match="holds no keys. 'antiphon keys create --tenant NAME' makes one"):
        read_keys(files.keys)
    with pytest.raises(SettingsError, match="Cannot read the pepper"):
        read_peppers(files.pepper)
    files.pepper.write_text(" \n")
    with pytest.raises(SettingsError, match="is empty: it must hold a pepper of at least 32 characters"):
        read_peppers(files.pepper)
    files.pepper.write_text("short\n")
    with pytest.raises(SettingsError, match="less than 32 characters") as caught:
        read_peppers(files.pepper)
    assert "short" not in str(caught.value)


def test_the_digest_is_hmac_sha256_of_the_whole_key() -> None:
    # RFC 4231, test case 2
    assert digest(b"Jefe", "what do ya want for nothing?").hex() == (
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    )


def test_times_are_utc_in_whole_seconds() -> None:
    assert (show_time(NOON_MS + 999), show_time(None)) == ("2026-11-21T12:00:00Z", "-")


def test_reload_of_key_files_logs_no_secret(
    files: KeyFiles, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watched, "LOOK_INTERVAL_S", 0.0)
    caplog.set_level(logging.DEBUG)
    secret: Any = files.make("acme")
    key_guard = guard(files)
    files.keys.write_text(files.keys.read_text() + "broken\n")
    key_guard.identify(secret)
    assert caplog.text
    for canary in (secret.split("_")[2], PEPPER, digest(PEPPER.encode(), secret).hex()):
        assert canary not in caplog.text
