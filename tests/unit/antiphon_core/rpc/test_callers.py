from __future__ import annotations

from pathlib import Path

import pytest

from antiphon_core.errors import Unauthenticated
from antiphon_core.rpc import callers
from antiphon_core.rpc.authentication import Guard
from antiphon_core.rpc.security import ServerSecurity
from antiphon_core.rpc.server import OPEN
from tests.support.fake_call import FakeCall

TOKEN = "token-0123456789abcdef"


@pytest.mark.parametrize(
    ("peer", "host"),
    [("ipv4:10.0.0.1:4711", "ipv4:10.0.0.1"), ("ipv6:[::1]:4711", "ipv6:[::1]"), ("unix:/a:b", "unix:/a:b")],
)
def test_a_peer_is_identified_without_its_port(peer: str, host: str) -> None:
    assert callers.host_of(peer) == host


def test_a_caller_is_its_credential_or_its_host(tmp_path: Path) -> None:
    path = tmp_path / "credentials"
    path.write_text(f"billing {TOKEN} acme reader\n")
    path.chmod(0o600)
    known = FakeCall(metadata=(("authorization", f"Bearer {TOKEN}"),)).call
    stranger = FakeCall().call
    assert callers.identify(known, ServerSecurity(Guard(path))) == "credential billing"
    assert callers.identify(stranger, OPEN) == "ipv4:127.0.0.1"
    with pytest.raises(Unauthenticated):
        callers.identify(stranger, ServerSecurity(Guard(path)))
