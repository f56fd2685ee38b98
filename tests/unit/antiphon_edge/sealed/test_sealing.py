from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon_core.clock import ManualClock
from antiphon_core.config import SettingsError
from antiphon_core.sealing_keys import SealingKeys
from antiphon_edge.sealed.sealing import BadSeal, Sealer, bad_seal_error

OLD, NEW = "a" * 64, "b" * 64


def sealer(tmp_path: Path, *lines: str, clock: ManualClock | None = None, ttl_s: int = 100) -> Sealer:
    path = tmp_path / "keys"
    path.write_text("\n".join(lines), "ascii")
    return Sealer.of(path, ttl_s=ttl_s, clock=clock or ManualClock())


@given(st.text())
def test_sealed_text_is_opened_unchanged(text: str) -> None:
    made = Sealer.of(None, ttl_s=1, clock=ManualClock())
    sealed = made.seal("t", text)
    assert made.open("t", sealed) == text
    assert sealed.isascii()


def test_seal_hides_its_text_and_differs_each_time() -> None:
    made = Sealer.of(None, ttl_s=1, clock=ManualClock())
    first, second = made.seal("t", "the secret"), made.seal("t", "the secret")
    assert first != second
    assert b"secret" not in urlsafe_b64decode(first.rpartition(".")[2])


def test_seal_is_opened_only_by_replicas_with_its_key(tmp_path: Path) -> None:
    sealed = sealer(tmp_path, f"1 {OLD}").seal("t", "x")
    assert sealer(tmp_path, f"1 {OLD}").open("t", sealed) == "x"
    for keys in ([f"1 {NEW}"], [f"2 {OLD}"]):
        with pytest.raises(BadSeal):
            sealer(tmp_path, *keys).open("t", sealed)
    with pytest.raises(BadSeal):
        Sealer.of(None, ttl_s=1, clock=ManualClock()).open(
            "t", Sealer.of(None, ttl_s=1, clock=ManualClock()).seal("t", "x")
        )


def test_keys_are_rotated_newest_first(tmp_path: Path) -> None:
    old = sealer(tmp_path, f"1 {OLD}").seal("t", "x")
    both = sealer(tmp_path, "# the newest first", f"2 {NEW}   # of November", "", f"1 {OLD}")
    assert both.open("t", old) == "x"
    assert both.seal("t", "x").startswith("v1.2.")
    with pytest.raises(BadSeal):
        sealer(tmp_path, f"2 {NEW}").open("t", old)


def test_seal_of_another_tenant_is_rejected(tmp_path: Path) -> None:
    made = sealer(tmp_path, f"1 {OLD}")
    with pytest.raises(BadSeal):
        made.open("other", made.seal("t", "x"))


def test_seal_expires_after_its_ttl(tmp_path: Path) -> None:
    clock = ManualClock()
    made = sealer(tmp_path, f"1 {OLD}", clock=clock, ttl_s=100)
    sealed = made.seal("t", "x")
    clock.advance(99)
    assert made.open("t", sealed) == "x"
    clock.advance(1)
    with pytest.raises(BadSeal):
        made.open("t", sealed)


@pytest.mark.parametrize(
    "given_",
    ["", "v1", "v1.", "v1.ephemeral", "v1.ephemeral.", "v1.ephemeral.AAAA", "gAAAA", "42", "v1.ephemeral.ü"],
)
def test_garbage_is_rejected_as_a_seal(given_: str) -> None:
    with pytest.raises(BadSeal):
        Sealer.of(None, ttl_s=1, clock=ManualClock()).open("t", given_)


@given(st.integers(min_value=0), st.integers(1, 255))
def test_seal_with_one_changed_byte_is_rejected(at: int, flip: int) -> None:
    made = Sealer.of(None, ttl_s=1, clock=ManualClock())
    head, _, encoded = made.seal("t", "some text").rpartition(".")
    raw = bytearray(urlsafe_b64decode(encoded))
    raw[at % len(raw)] ^= flip
    with pytest.raises(BadSeal):
        made.open("t", f"{head}.{urlsafe_b64encode(bytes(raw)).decode()}")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((), "holds no keys"),
        (("# nothing",), "holds no keys"),
        ((f"1 {OLD}", f"1 {NEW}"), "line 2"),
        ((f"1 {OLD[:-1]}",), "line 1"),
        ((OLD,), "line 1"),
        ((f"1 {OLD} more",), "line 1"),
        ((f"a.b {OLD}",), "line 1"),
    ],
)
def test_bad_key_file_is_rejected_without_showing_keys(tmp_path: Path, lines: tuple[str, ...], message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        sealer(tmp_path, *lines)
    assert message in str(caught.value)
    assert OLD[:-1] not in str(caught.value)


def test_missing_or_binary_key_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        SealingKeys.read(tmp_path / "none")
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError):
        SealingKeys.read(tmp_path / "binary")


def test_bad_seal_error_has_its_field_and_code() -> None:
    error = bad_seal_error("input[1].encrypted_content")
    assert (error.field, error.code) == ("input[1].encrypted_content", "invalid_encrypted_content")


@pytest.mark.parametrize("added", ["\n", "\r\n", " ", "*", "="])
def test_seal_with_characters_that_base64_skips_is_rejected(tmp_path: Path, added: str) -> None:
    keys = sealer(tmp_path, "k " + "0" * 64)
    sealed = keys.seal("acme", "a text")
    assert keys.open("acme", sealed) == "a text"
    for changed in (sealed + added, sealed[:-8] + added + sealed[-8:]):
        with pytest.raises(BadSeal):
            keys.open("acme", changed)
