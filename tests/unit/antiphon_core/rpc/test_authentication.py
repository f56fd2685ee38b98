from __future__ import annotations

from pathlib import Path

import pytest

from antiphon_core.config import SettingsError
from antiphon_core.errors import PermissionDenied, Unauthenticated
from antiphon_core.rpc.authentication import (
    TOKEN_CHARS_MIN,
    Credential,
    TokenGuard,
    digest,
    identify,
    read_credentials,
    text_metadata,
)

EDGE, BILLING = "edge-token-0123456789", "billing-token-0123456789"
FILE = f"""
# who may call
edge    {EDGE}     *
  # indented
billing\t{BILLING}\tacme,globex
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
    assert credentials == {
        digest(EDGE): Credential("edge", None),
        digest(BILLING): Credential("billing", frozenset({"acme", "globex"})),
    }
    assert EDGE not in repr(credentials)


def test_a_name_may_have_two_tokens_while_one_is_rotated(path: Path) -> None:
    path.write_text(f"edge {EDGE} *\nedge {EDGE}-new *\n")
    credentials = read_credentials(path)
    assert {identify(bearer(token), credentials).name for token in (EDGE, EDGE + "-new")} == {"edge"}


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "holds no credentials"),
        ("# nobody\n", "holds no credentials"),
        (f"edge {EDGE}\n", "line 1: 2 words instead of three"),
        (f"\nedge {EDGE} acme globex\n", "line 2: 4 words instead of three"),
        (f"edge {EDGE} acme,\n", "line 1: TENANTS must be"),
        (f"edge {EDGE} acme,*\n", "line 1: TENANTS must be"),
        (f"edge {EDGE[: TOKEN_CHARS_MIN - 1]} *\n", f"line 1: a token needs {TOKEN_CHARS_MIN} characters"),
        (f"edge {EDGE}ü *\n", "line 1: a token is printable ASCII"),
        (f"edge {EDGE} *\nother {EDGE} acme\n", "line 2: an earlier line has the same token"),
    ],
)
def test_mistakes_are_named_by_line_and_never_with_the_token(path: Path, content: str, says: str) -> None:
    path.write_text(content)
    with pytest.raises(SettingsError, match=says) as caught:
        TokenGuard(path)
    assert str(path) in str(caught.value)
    assert EDGE[: TOKEN_CHARS_MIN - 1] not in str(caught.value)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_bearer_is_found_by_the_token(path: Path, scheme: str) -> None:
    assert TokenGuard(path).identify(bearer(EDGE, scheme)).name == "edge"


@pytest.mark.parametrize("header", [None, "", "Bearer", "Bearer ", EDGE, f"Basic {EDGE}"])
def test_no_token_is_said(path: Path, header: str | None) -> None:
    metadata = {} if header is None else {"authorization": header}
    with pytest.raises(Unauthenticated, match="carries no token") as caught:
        TokenGuard(path).identify(metadata)
    assert EDGE not in caught.value.message


@pytest.mark.parametrize("token", [EDGE[:-1], EDGE + "0", " " + EDGE, "edge", "*", EDGE.upper()])
def test_an_unknown_token_is_said_and_not_repeated(path: Path, token: str) -> None:
    with pytest.raises(Unauthenticated, match="not one that is known here") as caught:
        TokenGuard(path).authenticate(bearer(token), "acme")
    assert token not in caught.value.message or token in "edge*"
    assert caught.value.facts == {}


def test_tenants_are_those_of_the_line(path: Path) -> None:
    guard = TokenGuard(path)
    for tenant in ("acme", "globex", "default", "*"):
        guard.authenticate(bearer(EDGE), tenant)
    guard.authenticate(bearer(BILLING), "acme")
    guard.authenticate(bearer(BILLING), "globex")
    for tenant in ("default", "acm", "acme,globex", "*", ""):
        with pytest.raises(PermissionDenied, match="'billing' may not speak for the tenant") as caught:
            guard.authenticate(bearer(BILLING), tenant)
        assert caught.value.facts == {"name": "billing", "tenant": tenant}


def test_metadata_is_text_and_the_last_of_a_key_counts() -> None:
    metadata = (("a", "1"), ("a", "2"), ("b-bin", b"3"))
    assert text_metadata(metadata) == {"a": "2"}
    assert text_metadata(None) == {}
