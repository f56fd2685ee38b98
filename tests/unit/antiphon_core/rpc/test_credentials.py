from __future__ import annotations

from pathlib import Path

import pytest

from antiphon_core.config import SettingsError
from antiphon_core.rpc import watched
from antiphon_core.rpc.credentials import ANONYMOUS, ClientCredentials
from tests.support.certificates import authority, signed_by

TOKEN = "token-0123456789abcdef"


def test_anonymous_credentials_have_no_token_and_no_tls() -> None:
    assert ANONYMOUS.open_token() is None
    assert ANONYMOUS.open_ssl() is None


def test_a_token_is_used_unchanged_and_left_out_of_the_repr() -> None:
    credentials = ClientCredentials(token=TOKEN)
    token = credentials.open_token()
    assert token is not None
    assert token() == TOKEN
    assert TOKEN not in repr(credentials)


def test_a_token_file_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "LOOK_INTERVAL_S", 0.0)
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    token = ClientCredentials(token_file=path).open_token()
    assert token is not None
    assert token() == TOKEN
    path.write_text("another-" + TOKEN)
    assert token() == "another-" + TOKEN
    path.write_text("two words of a broken file")
    assert token() == "another-" + TOKEN


@pytest.mark.parametrize("content", ["", "short", "two words are no token"])
def test_a_file_without_a_token_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "token"
    path.write_text(content)
    with pytest.raises(SettingsError, match="token: a token"):
        ClientCredentials(token_file=path).open_token()
    with pytest.raises(SettingsError, match="token: a token"):
        ClientCredentials(token=content).open_token()


def test_a_token_file_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="Cannot read the token file"):
        ClientCredentials(token_file=tmp_path / "gone").open_token()


FILE = Path("x")


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"token": TOKEN, "token_file": FILE}, "not both"),
        ({"tls_ca_file": FILE, "tls_cert_file": FILE}, "need each other"),
        ({"tls_ca_file": FILE, "tls_key_file": FILE}, "need each other"),
        ({"tls_cert_file": FILE, "tls_key_file": FILE}, "needs tls_ca_file"),
    ],
)
def test_contradictory_or_incomplete_credentials_are_rejected(parts: dict[str, Path], says: str) -> None:
    with pytest.raises(SettingsError, match=says):
        ClientCredentials(**parts)  # type: ignore[arg-type]


def test_an_authority_turns_tls_on_with_and_without_an_own_certificate(tmp_path: Path) -> None:
    ca = authority(tmp_path, "ca")
    own = signed_by(ca, tmp_path, "client")
    assert ClientCredentials(tls_ca_file=ca.cert).open_ssl() is not None
    assert ClientCredentials(tls_ca_file=ca.cert, tls_cert_file=own.cert, tls_key_file=own.key).open_ssl() is not None
    wrong = ClientCredentials(tls_ca_file=ca.cert, tls_cert_file=own.cert, tls_key_file=ca.key)
    with pytest.raises(SettingsError, match="are not a certificate and its key"):
        wrong.open_ssl()
