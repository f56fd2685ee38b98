"""Attack 15: the tenant `antiphon.dispatch`, which holds the tickets of all tenants' jobs. No caller can act for it,
whichever way the tenant is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.cli import main
from antiphon_core.config import SettingsError
from antiphon_core.errors import PermissionDenied
from antiphon_core.ports.jobs import DISPATCH_TENANT
from antiphon_core.rpc.authentication import Guard
from antiphon_core.rpc.methods import STORE
from antiphon_edge.callers import api_keys
from antiphon_edge.callers.authentication import TENANT_HEADER
from tests.support.api_keys import KeyFiles
from tests.support.edge import running_edge

NAMES = [DISPATCH_TENANT, "antiphon.other", "ANTIPHON.dispatch"]
TOKEN = "token-0123456789abcdef"


@pytest.mark.parametrize("name", NAMES)
async def test_the_reserved_tenant_in_the_tenant_header_is_rejected(name: str) -> None:
    async with running_edge(tenants=True) as edge:
        refused = await edge.ask("GET", "/v1/models", headers={TENANT_HEADER: name})
        assert (refused.status, refused.error["param"]) == (400, TENANT_HEADER)


@pytest.mark.parametrize("name", NAMES)
def test_creating_an_api_key_for_the_reserved_tenant_is_refused(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [f"--edge-keys-file={tmp_path / 'keys'}", f"--edge-keys-pepper-file={tmp_path / 'pepper'}"]
    assert main(["keys", "create", f"--tenant={name}", *files]) != 0
    assert "antiphon." in capsys.readouterr().err


@pytest.mark.parametrize("name", NAMES)
def test_a_keys_file_with_the_reserved_tenant_is_refused(tmp_path: Path, name: str) -> None:
    files = KeyFiles(tmp_path)
    files.make(name)
    with pytest.raises(SettingsError, match="Antiphon's own"):
        api_keys.read_keys(files.keys)


@pytest.mark.parametrize(("tenants", "roles"), [("*", "reader,writer"), (DISPATCH_TENANT, "writer"), ("*", "operator")])
def test_store_tokens_other_than_the_gateways_are_denied_the_reserved_tenant(
    tmp_path: Path, tenants: str, roles: str
) -> None:
    path = tmp_path / "credentials"
    path.write_text(f"billing {TOKEN} {tenants} {roles}\nedge {TOKEN}2 * gateway\n")
    guard = Guard(path)

    def admit(token: str, rpc: str) -> None:
        method = STORE.methods[rpc]
        guard.admit({"authorization": f"Bearer {token}"}, {}, DISPATCH_TENANT, method.path, method.row.roles)

    for rpc in ("GetResponseRecord", "PutResponseRecord", "DescribeJob", "CancelJob"):
        with pytest.raises(PermissionDenied):
            admit(TOKEN, rpc)
    admit(f"{TOKEN}2", "ClaimJob")
