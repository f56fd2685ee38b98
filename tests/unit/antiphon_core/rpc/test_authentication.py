from __future__ import annotations

from pathlib import Path

import pytest

from antiphon_core.config import SettingsError
from antiphon_core.errors import InvalidRequest, PermissionDenied, Unauthenticated
from antiphon_core.rpc import certificate_names
from antiphon_core.rpc.authentication import (
    TOKEN_CHARS_MIN,
    Credential,
    Guard,
    caller_metadata,
    digest,
    identify,
    read_credentials,
    text_metadata,
)
from antiphon_core.rpc.roles import ALL_ROLES, Role

EDGE, BILLING = "edge-token-0123456789", "billing-token-0123456789"
FILE = f"""
# who may call
edge    {EDGE}     *  gateway
  # indented
billing\t{BILLING}\tacme,globex\treader,writer
cleaner certificate:cleaner.svc * operator
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "credentials"
    path.write_text(FILE)
    return path


def bearer(token: str, scheme: str = "Bearer") -> dict[str, str]:
    return {"authorization": f"{scheme} {token}"}


def test_a_file_is_read_line_by_line_and_holds_digests_only(path: Path) -> None:
    credentials = read_credentials(path)
    assert credentials.tokens == {
        digest(EDGE): Credential("edge", None, frozenset({Role.GATEWAY})),
        digest(BILLING): Credential("billing", frozenset({"acme", "globex"}), frozenset({Role.READER, Role.WRITER})),
    }
    cleaner = certificate_names.parse("cleaner.svc", "")
    assert credentials.certificates == {cleaner: Credential("cleaner", None, frozenset({Role.OPERATOR}))}
    assert EDGE not in repr(credentials)


def test_a_name_may_have_two_tokens_while_one_is_rotated(path: Path) -> None:
    path.write_text(f"edge {EDGE} * gateway\nedge {EDGE}-new * gateway\n")
    credentials = read_credentials(path)
    assert {identify(bearer(token), {}, credentials).name for token in (EDGE, EDGE + "-new")} == {"edge"}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "holds no credentials"),
        ("# nobody\n", "holds no credentials"),
        (f"edge {EDGE} *\n", "line 1: 3 words instead of four"),
        (f"\nedge {EDGE} acme globex reader\n", "line 2: 5 words instead of four"),
        (f"edge {EDGE} acme, reader\n", "line 1: TENANTS must be"),
        (f"edge {EDGE} acme,* reader\n", "line 1: TENANTS must be"),
        (f"edge {EDGE[: TOKEN_CHARS_MIN - 1]} * reader\n", f"line 1: a token needs {TOKEN_CHARS_MIN} characters"),
        (f"edge {EDGE}ü * reader\n", "line 1: a token is printable ASCII"),
        (f"edge {EDGE} * reader\nother {EDGE} acme reader\n", "line 2: an earlier line has the same token"),
        ("a certificate:a * reader\nb certificate:a * reader\n", "line 2: an earlier line has the same token"),
        (f"edge {EDGE} * boss\n", "line 1: ROLES must be some of reader, writer, gateway, operator"),
        (f"edge {EDGE} * reader,\n", "line 1: ROLES must be"),
    ],
)
def test_mistakes_are_named_by_line_and_never_with_the_token(path: Path, content: str, says: str) -> None:
    path.write_text(content)
    with pytest.raises(SettingsError, match=says) as caught:
        Guard(path)
    assert str(path) in str(caught.value)
    assert EDGE[: TOKEN_CHARS_MIN - 1] not in str(caught.value)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_bearer_is_found_by_the_token(path: Path, scheme: str) -> None:
    assert Guard(path).identify(bearer(EDGE, scheme), {}).name == "edge"


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", EDGE, f"Basic {EDGE}"])
def test_a_call_without_a_token_is_unauthenticated(path: Path, header: str | None) -> None:
    metadata = {} if header is None else {"authorization": header}
    with pytest.raises(Unauthenticated, match="carries no token") as caught:
        Guard(path).identify(metadata, {})
    assert EDGE not in caught.value.message


@pytest.mark.parametrize("token", [EDGE[:-1], EDGE + "0", " " + EDGE, "edge", "*", EDGE.upper()])
def test_an_unknown_token_is_unauthenticated_and_not_echoed(path: Path, token: str) -> None:
    with pytest.raises(Unauthenticated, match="token of this call is unknown") as caught:
        Guard(path).admit(bearer(token), {}, "acme", "/s/m", ALL_ROLES)
    assert token not in caught.value.message or token in "edge*"
    assert caught.value.facts == {}


def test_a_tenant_outside_the_credential_is_denied(path: Path) -> None:
    guard = Guard(path)
    for tenant in ("acme", "globex", "default", "*"):
        guard.admit(bearer(EDGE), {}, tenant, "/s/m", ALL_ROLES)
    guard.admit(bearer(BILLING), {}, "acme", "/s/m", ALL_ROLES)
    guard.admit(bearer(BILLING), {}, "globex", "/s/m", ALL_ROLES)
    for tenant in ("default", "acm", "acme,globex", "*", ""):
        with pytest.raises(PermissionDenied, match="'billing' may not speak for the tenant") as caught:
            guard.admit(bearer(BILLING), {}, tenant, "/s/m", ALL_ROLES)
        assert caught.value.facts == {"name": "billing", "tenant": tenant}


def test_one_role_of_a_method_suffices_and_none_is_denied(path: Path) -> None:
    guard = Guard(path)
    guard.admit(bearer(BILLING), {}, "acme", "/s/m", frozenset({Role.WRITER, Role.GATEWAY}))
    with pytest.raises(
        PermissionDenied, match="'billing' may not call /s/m, which needs one of the roles: gateway"
    ) as e:
        guard.admit(bearer(BILLING), {}, "acme", "/s/m", frozenset({Role.GATEWAY}))
    assert e.value.facts == {"name": "billing", "method": "/s/m", "roles": "gateway"}


def test_a_certificate_is_found_by_its_names(path: Path) -> None:
    guard = Guard(path)
    names = (("DNS", "other.svc"), ("DNS", "cleaner.svc"))
    assert guard.identify({}, {"subjectAltName": names}).name == "cleaner"
    assert guard.identify({}, {"subject": ((("commonName", "cleaner.svc"),),)}).name == "cleaner"
    for unknown in ({"subjectAltName": names[:1]}, {}):
        with pytest.raises(Unauthenticated):
            guard.identify({}, unknown)


def test_a_token_counts_before_a_certificate(path: Path) -> None:
    peer = {"subject": ((("commonName", "cleaner.svc"),),)}
    assert Guard(path).identify(bearer(EDGE), peer).name == "edge"
    with pytest.raises(Unauthenticated):
        Guard(path).identify(bearer("certificate:cleaner.svc"), peer)


def test_text_metadata_skips_binary_keys_and_keeps_the_last_value() -> None:
    metadata = (("a", "1"), ("a", "2"), ("b-bin", b"3"))
    assert text_metadata(metadata) == {"a": "2"}
    assert text_metadata(None) == {}


@pytest.mark.parametrize(("key", "error"), [("authorization", Unauthenticated), ("antiphon-tenant", InvalidRequest)])
def test_a_call_with_two_values_for_its_caller_or_tenant_is_rejected(key: str, error: type[Exception]) -> None:
    assert caller_metadata(((key, "a"), ("x", "1"), ("x", "2"))) == {key: "a", "x": "2"}
    for second in ("a", "b"):
        with pytest.raises(error, match=f"several values of '{key}'"):
            caller_metadata(((key, "a"), (key, second)))
