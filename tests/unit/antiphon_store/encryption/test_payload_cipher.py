from __future__ import annotations

from base64 import b64encode
from itertools import product

import pytest

from antiphon_core.errors import DataDamaged, InternalError, StoreUnavailable
from antiphon_core.sealing_keys import SealingKeys
from antiphon_store.encryption.payload_cipher import FIELD_PREFIX, MAGIC, PayloadCipher, bound_to
from antiphon_store.rows.model import Kind, Partition, Ref

OLD, NEW = {"old": bytes(32)}, {"new": b"\x01" * 32}
PLACE = bound_to(Partition("acme", "0f"), Ref(Kind.NODE, "resp_1"), "body")
TEXT = b'{"secret":"canary"}'


def cipher(*keys: dict[str, bytes]) -> PayloadCipher:
    together = {name: key for each in keys for name, key in each.items()}
    return PayloadCipher(SealingKeys(next(iter(together)), together))


def test_a_payload_is_sealed_and_opened() -> None:
    sealed = cipher(OLD).seal(TEXT, PLACE)
    assert sealed.startswith(MAGIC)
    assert b"canary" not in sealed
    assert len(sealed) - len(TEXT) <= 79  # the limit of docs/adr/0106
    assert cipher(OLD).open(sealed, PLACE) == TEXT
    assert cipher(OLD).seal(TEXT, PLACE) != sealed


def test_empty_and_plain_payloads_are_left_unchanged() -> None:
    assert cipher(OLD).seal(b"", PLACE) == cipher(OLD).open(b"", PLACE) == b""
    assert cipher(OLD).open(TEXT, PLACE) == TEXT


def test_the_first_key_seals_and_every_key_opens() -> None:
    first, second = cipher(OLD).seal(TEXT, PLACE), cipher(NEW, OLD).seal(TEXT, PLACE)
    assert cipher(NEW, OLD).open(first, PLACE) == cipher(NEW, OLD).open(second, PLACE) == TEXT
    with pytest.raises(StoreUnavailable, match="a key is missing"):
        cipher(NEW).open(first, PLACE)
    with pytest.raises(StoreUnavailable):
        cipher(OLD).open(second, PLACE)


def test_a_payload_opened_for_another_row_is_rejected() -> None:
    sealed = cipher(OLD).seal(TEXT, PLACE)
    places = product(("acme", "globex"), ("0f", "1f"), (Kind.NODE, Kind.JOB), ("resp_1", "resp_2"), ("body", "items"))
    others = [bound_to(Partition(tenant, tree), Ref(kind, row), name) for tenant, tree, kind, row, name in places]
    assert len(set(others)) == 32
    for other in others[1:]:
        with pytest.raises(InternalError, match="belongs to another row"):
            cipher(OLD).open(sealed, other)
    assert cipher(OLD).open(sealed, others[0]) == TEXT


def test_a_changed_payload_or_another_key_of_that_name_is_an_error() -> None:
    sealed = cipher(OLD).seal(TEXT, PLACE)
    for at in range(len(MAGIC) + 5, len(sealed), 7):
        changed = bytearray(sealed)
        changed[at] ^= 1
        with pytest.raises(InternalError):
            cipher(OLD).open(bytes(changed), PLACE)
    for length in range(len(MAGIC), len(sealed)):
        with pytest.raises(InternalError, match="damaged"):
            cipher(OLD).open(sealed[:length], PLACE)
    with pytest.raises(InternalError):
        cipher({"old": b"\x02" * 32}).open(sealed, PLACE)


@pytest.mark.parametrize("value", ['{"a":"canary"}', [1, [7, 8]], {"a": None}, 0, ""])
def test_a_sealed_field_is_text_and_opens_to_its_value(value: object) -> None:
    sealed = cipher(OLD).seal_field(value, PLACE)
    assert isinstance(sealed, str)
    assert "canary" not in sealed
    assert cipher(OLD).open_field(sealed, PLACE) == value


@pytest.mark.parametrize("damaged", ["", "%", "abc", "AAAA", "ü", b64encode(MAGIC).decode()])
def test_a_damaged_field_is_an_error(damaged: str) -> None:
    with pytest.raises(InternalError, match="damaged"):
        cipher(OLD).open_field(FIELD_PREFIX + damaged, PLACE)


def test_absent_and_plain_fields_are_left_unchanged() -> None:
    assert cipher(OLD).seal_field(None, PLACE) is None
    for value in (None, '{"a":"b"}', [1, [2]]):
        assert cipher(OLD).open_field(value, PLACE) == value


def test_a_wrong_key_under_a_known_id_is_suspected_before_the_data(caplog: pytest.LogCaptureFixture) -> None:
    """The log told the operator to delete a response that the right key opens."""
    sealed = cipher(OLD).seal(TEXT, PLACE)
    with pytest.raises(InternalError, match="another key under this id") as caught:
        cipher({"old": b"\x02" * 32}).open(sealed, PLACE)
    assert caught.value.facts.keys() == {"missing_key"}  # as for a missing key: no job ends, sweeps go on
    (line,) = caplog.records
    assert "'old'" in line.getMessage()
    assert "delete" not in line.__dict__["remedy"]
    assert "store.encryption_keys_file" in line.__dict__["remedy"]
    assert cipher(OLD).open(sealed, PLACE) == TEXT


@pytest.mark.parametrize("proves", ["seals", "opens"])
def test_damage_under_a_key_that_works_is_reported_as_damage(proves: str, caplog: pytest.LogCaptureFixture) -> None:
    sealed = cipher(OLD).seal(TEXT, PLACE)
    working = cipher(OLD)
    assert working.seal(TEXT, PLACE) if proves == "seals" else working.open(sealed, PLACE)
    with pytest.raises(DataDamaged):
        working.open(sealed[:-1] + bytes([sealed[-1] ^ 1]), PLACE)
    assert "restore the database" in caplog.records[0].__dict__["remedy"]
