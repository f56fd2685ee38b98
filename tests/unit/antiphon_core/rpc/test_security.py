from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from antiphon_core.config import SettingsError
from antiphon_core.errors import Unavailable
from antiphon_core.rpc import watched
from antiphon_core.rpc.security import ServerSecurity
from antiphon_core.rpc.settings import RpcServerSettings
from tests.support.certificates import authority, signed_by


@dataclass(frozen=True, slots=True)
class Pump(RpcServerSettings):
    section: ClassVar[str] = "pump"


def test_security_has_a_guard_and_tls_only_with_their_files(tmp_path: Path) -> None:
    tokens = tmp_path / "credentials"
    tokens.write_text("edge token-0123456789abcdef * gateway\n")
    ca = authority(tmp_path, "ca")
    own = signed_by(ca, tmp_path, "server")
    nothing = ServerSecurity.of(Pump())
    assert (nothing.guard, nothing.tls) == (None, None)
    everything = ServerSecurity.of(
        Pump(token_file=tokens, tls_cert_file=own.cert, tls_key_file=own.key, tls_client_ca_file=ca.cert)
    )
    assert everything.guard is not None
    assert everything.tls is not None
    everything.require_usable()
    with pytest.raises(SettingsError, match="Cannot read the credentials file"):
        ServerSecurity.of(Pump(token_file=tmp_path / "gone"))


def test_an_unusable_client_ca_file_rejects_calls_after_the_grace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched, "LOOK_INTERVAL_S", 0.0)
    ca = authority(tmp_path, "ca")
    own = signed_by(ca, tmp_path, "server")
    files: dict[str, Any] = {"tls_cert_file": own.cert, "tls_key_file": own.key, "tls_client_ca_file": ca.cert}
    strict, with_grace = (ServerSecurity.of(Pump(**files, secrets_grace_s=grace_s)) for grace_s in (0.0, 60.0))
    content = ca.cert.read_bytes()
    ca.cert.write_text("")
    with_grace.require_usable()
    with pytest.raises(Unavailable):
        strict.require_usable()
    ca.cert.write_bytes(content)
    strict.require_usable()
