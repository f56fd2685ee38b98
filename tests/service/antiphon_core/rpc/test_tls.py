"""Handshakes of a real server and real clients. Certificates are made by openssl once for all tests here."""

from __future__ import annotations

import asyncio
import shutil
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from antiphon_core.config import SettingsError
from antiphon_core.errors import PermissionDenied, StoreUnavailable, Unauthenticated
from antiphon_core.rpc import watched
from antiphon_core.rpc.client import RpcClient
from antiphon_core.rpc.credentials import ANONYMOUS, ClientCredentials
from antiphon_core.rpc.lean_streams import LeanStreams
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.security import ServerSecurity
from antiphon_core.rpc.server import Call, RpcServer
from antiphon_core.rpc.settings import RpcServerSettings
from antiphon_core.rpc.tls import KeyPair, client_ssl, read_authorities
from antiphon_protos.antiphon.store import v1
from antiphon_protos.antiphon.store.internal import v1 as internal
from tests.support.certificates import Certificate, authority, lock, signed_by

TEXTS = {"dns": "edge.svc", "uri": "spiffe://acme/edge", "email": "edge@acme.example", "ip": "10.0.3.9"}
TOKEN = "token-0123456789abcdef"


@dataclass(frozen=True)
class Certificates:
    """Two independent authorities, and the certificates that each of them signed."""

    ca: Certificate
    server: Certificate
    client: Certificate
    other_ca: Certificate
    other_client: Certificate
    other_server: Certificate


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    folder = tmp_path_factory.mktemp("papers")
    ca, other = authority(folder, "ca"), authority(folder, "other-ca")
    return Certificates(
        ca=ca,
        server=signed_by(ca, folder, "server"),
        client=signed_by(ca, folder, "client"),
        other_ca=other,
        other_client=signed_by(other, folder, "other-client"),
        other_server=signed_by(other, folder, "other-server"),
    )


def settings_of(own: Certificate, **more: Any) -> RpcServerSettings:
    return RpcServerSettings(tls_cert_file=own.cert, tls_key_file=own.key, **more)


def shown(ca: Certificate, own: Certificate | None = None, **more: Any) -> ClientCredentials:
    if own is not None:
        more |= {"tls_cert_file": own.cert, "tls_key_file": own.key}
    return ClientCredentials(tls_ca_file=ca.cert, **more)


@asynccontextmanager
async def serving(settings: RpcServerSettings) -> AsyncIterator[str]:
    """The endpoint of a server whose answer to Get is the tenant."""

    async def get(_request: Any, call: Call) -> v1.GetResponseRecordResponse:
        return v1.GetResponseRecordResponse(record=v1.ResponseRecord(id=call.tenant))

    async def ready() -> None:
        pass

    server = RpcServer(ServerSecurity.of(settings))
    server.add(STORE, {"GetResponseRecord": get}, ready=ready)
    try:
        yield f"127.0.0.1:{await server.start('127.0.0.1', 0)}"
    finally:
        await server.drain(0)


async def tenant_of_call(endpoint: str, credentials: ClientCredentials, tenant: str = "acme") -> str:
    """The tenant of a call over a new connection."""
    async with RpcClient(endpoint, STORE, unavailable=StoreUnavailable, credentials=credentials) as client:
        answer = await client.call("GetResponseRecord", v1.GetResponseRecordRequest(), tenant=tenant)
        return str(answer.record.id)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1:DeprecationWarning")
@pytest.mark.parametrize(
    ("newest", "ciphers"),
    [
        (ssl.TLSVersion.TLSv1_1, "ALL"),
        (ssl.TLSVersion.TLSv1_2, "eNULL:aNULL"),
        (ssl.TLSVersion.TLSv1_2, "ECDHE-ECDSA-AES128-SHA"),
    ],
    ids=["TLS 1.1", "no encryption or authentication", "CBC"],
)
async def test_old_versions_and_weak_ciphers_are_not_negotiated(
    certificates: Certificates, newest: ssl.TLSVersion, ciphers: str
) -> None:
    context = ssl.create_default_context(cafile=str(certificates.ca.cert))
    context.set_ciphers(f"{ciphers}:@SECLEVEL=0")
    context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, newest
    async with serving(settings_of(certificates.server)) as endpoint:
        host, port = endpoint.split(":")
        with pytest.raises(ssl.SSLError):
            await asyncio.open_connection(host, int(port), ssl=context)
        assert await tenant_of_call(endpoint, shown(certificates.ca)) == "acme"


async def test_a_client_that_knows_the_authority_is_served(certificates: Certificates) -> None:
    async with serving(settings_of(certificates.server)) as endpoint:
        assert await tenant_of_call(endpoint, shown(certificates.ca)) == "acme"


async def test_a_server_certificate_of_another_authority_is_rejected(certificates: Certificates) -> None:
    async with serving(settings_of(certificates.other_server)) as endpoint:
        with pytest.raises(StoreUnavailable):
            await tenant_of_call(endpoint, shown(certificates.ca))


async def test_plaintext_is_not_answered(certificates: Certificates) -> None:
    async with serving(settings_of(certificates.server)) as endpoint:
        with pytest.raises(StoreUnavailable):
            await tenant_of_call(endpoint, ANONYMOUS)


async def test_a_certificate_of_the_right_authority_speaks_for_every_tenant(certificates: Certificates) -> None:
    async with serving(settings_of(certificates.server, tls_client_ca_file=certificates.ca.cert)) as endpoint:
        for tenant in ("acme", "globex"):
            assert await tenant_of_call(endpoint, shown(certificates.ca, certificates.client), tenant) == tenant


@pytest.mark.parametrize("client", [None, "other_client"], ids=["no certificate", "another authority's"])
async def test_a_client_without_a_certificate_of_the_authority_is_rejected(
    certificates: Certificates, client: str | None
) -> None:
    async with serving(settings_of(certificates.server, tls_client_ca_file=certificates.ca.cert)) as endpoint:
        with pytest.raises(StoreUnavailable):
            await tenant_of_call(endpoint, shown(certificates.ca, getattr(certificates, client) if client else None))


async def test_a_server_with_tokens_and_client_certificates_requires_both(
    certificates: Certificates, tmp_path: Path
) -> None:
    tokens = tmp_path / "credentials"
    tokens.write_text(f"edge {TOKEN} * gateway\n")
    asks_for_both = settings_of(certificates.server, tls_client_ca_file=certificates.ca.cert, token_file=tokens)
    async with serving(asks_for_both) as endpoint:
        assert await tenant_of_call(endpoint, shown(certificates.ca, certificates.client, token=TOKEN)) == "acme"
        with pytest.raises(Unauthenticated):
            await tenant_of_call(endpoint, shown(certificates.ca, certificates.client))
        with pytest.raises(StoreUnavailable):
            await tenant_of_call(endpoint, shown(certificates.ca, token=TOKEN))


async def test_a_certificate_that_the_file_names_needs_no_token(certificates: Certificates, tmp_path: Path) -> None:
    credentials = tmp_path / "credentials"
    credentials.write_text("edge certificate:localhost acme gateway\n")
    settings = settings_of(certificates.server, tls_client_ca_file=certificates.ca.cert, token_file=credentials)
    async with serving(settings) as endpoint:
        assert await tenant_of_call(endpoint, shown(certificates.ca, certificates.client)) == "acme"
        with pytest.raises(PermissionDenied, match="'edge' may not speak for the tenant 'globex'"):
            await tenant_of_call(endpoint, shown(certificates.ca, certificates.client), "globex")


NAMES: dict[str, x509.GeneralName] = {
    "dns": x509.DNSName("edge.svc"),
    "uri": x509.UniformResourceIdentifier("spiffe://acme/edge"),
    "email": x509.RFC822Name("edge@acme.example"),
    "ip": x509.IPAddress(ip_address("10.0.3.9")),
}


@pytest.mark.parametrize("shows", NAMES)
async def test_a_certificate_is_admitted_by_names_of_the_types_in_the_file(
    certificates: Certificates, tmp_path: Path, shows: str
) -> None:
    """The common name of the certificate is that of another caller, and each type has a certificate of its own."""
    client = signed_by(certificates.ca, tmp_path, "boss.svc", names=[NAMES[shows]])
    for written in NAMES:
        credentials = tmp_path / written
        lines = ("boss certificate:boss.svc * gateway", f"edge certificate:{written}:{TEXTS[written]} * gateway")
        credentials.write_text("\n".join(lines))
        credentials.chmod(0o600)
        settings = settings_of(certificates.server, tls_client_ca_file=certificates.ca.cert, token_file=credentials)
        async with serving(settings) as endpoint:
            with nullcontext() if written == shows else pytest.raises(Unauthenticated):
                await tenant_of_call(endpoint, shown(certificates.ca, client))


@pytest.mark.parametrize("name", ["dns", "uri", "email"])
async def test_a_certificate_of_one_type_is_not_the_name_of_another(
    certificates: Certificates, tmp_path: Path, name: str
) -> None:
    """An email address or URI that is written like a DNS name."""
    makers: dict[str, Any] = {"dns": x509.DNSName, "uri": x509.UniformResourceIdentifier, "email": x509.RFC822Name}
    client = signed_by(certificates.ca, tmp_path, "client", names=[makers[name]("edge.svc")])
    credentials = tmp_path / "credentials"
    credentials.write_text("edge certificate:edge.svc * gateway\n")
    settings = settings_of(certificates.server, tls_client_ca_file=certificates.ca.cert, token_file=credentials)
    async with serving(settings) as endpoint:
        with nullcontext() if name == "dns" else pytest.raises(Unauthenticated):
            await tenant_of_call(endpoint, shown(certificates.ca, client))


@pytest.mark.parametrize("common_name", ["localhost", "127.0.0.1"])
async def test_the_common_name_of_a_server_with_other_names_does_not_count(
    certificates: Certificates, tmp_path: Path, common_name: str
) -> None:
    server = signed_by(certificates.ca, tmp_path, common_name, names=[NAMES["uri"]])
    async with serving(settings_of(server)) as address:
        endpoint = address.replace("127.0.0.1", common_name)
        with pytest.raises(StoreUnavailable):
            await tenant_of_call(endpoint, shown(certificates.ca))
        streams = LeanStreams(endpoint, STORE, unavailable=StoreUnavailable, credentials=shown(certificates.ca))
        with pytest.raises(StoreUnavailable):
            await streams.run("ReadEvents", internal.ReadEventsRequest(), lambda _: None)
        await streams.close()


async def test_new_connections_see_rotated_certificates(
    certificates: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(watched, "LOOK_INTERVAL_S", 0.0)
    own = Certificate(cert=tmp_path / "tls.crt", key=tmp_path / "tls.key")
    client_ca = tmp_path / "ca.crt"

    def put(certificate: Certificate, ca: Certificate) -> None:
        shutil.copy(certificate.cert, own.cert)
        shutil.copy(certificate.key, own.key)
        shutil.copy(ca.cert, client_ca)

    put(certificates.server, certificates.ca)
    async with serving(settings_of(own, tls_client_ca_file=client_ca)) as endpoint:
        assert await tenant_of_call(endpoint, shown(certificates.ca, certificates.client)) == "acme"
        put(certificates.other_server, certificates.other_ca)
        assert await tenant_of_call(endpoint, shown(certificates.other_ca, certificates.other_client)) == "acme"
        with pytest.raises(StoreUnavailable):
            await tenant_of_call(endpoint, shown(certificates.ca, certificates.client))
        shutil.copy(certificates.server.key, own.key)  # half of a rotation: the key of another certificate
        assert await tenant_of_call(endpoint, shown(certificates.other_ca, certificates.other_client)) == "acme"
        assert "the last content stays valid" in caplog.text


def load(pair: KeyPair) -> None:
    pair.load_into(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))


def test_a_key_of_another_certificate_is_refused(certificates: Certificates) -> None:
    with pytest.raises(SettingsError, match="server.pem and .*client.key are not a certificate and its key"):
        load(KeyPair(certificates.server.cert, certificates.client.key))


def test_malformed_certificate_or_key_files_are_rejected(certificates: Certificates, tmp_path: Path) -> None:
    nonsense = tmp_path / "nonsense"
    nonsense.write_text("nothing of the kind")
    with pytest.raises(SettingsError, match="not a certificate and its key"):
        load(KeyPair(nonsense, certificates.server.key))
    with pytest.raises(SettingsError, match="nonsense holds no certificates of authorities"):
        read_authorities(nonsense)
    with pytest.raises(SettingsError, match="Cannot read the private key .*gone"):
        load(KeyPair(certificates.server.cert, tmp_path / "gone"))


def test_a_key_with_a_password_is_rejected_without_a_prompt(certificates: Certificates, tmp_path: Path) -> None:
    locked = tmp_path / "locked.key"
    lock(certificates.server.key, locked, "secret")
    with pytest.raises(SettingsError, match="without a password"):
        load(KeyPair(certificates.server.cert, locked))


async def test_authorities_with_comments_in_any_language_are_read(certificates: Certificates, tmp_path: Path) -> None:
    commented = Certificate(cert=tmp_path / "ca.pem", key=certificates.ca.key)
    commented.cert.write_text(f"# Főtanúsítvány\n{certificates.ca.cert.read_text()}", encoding="utf-8")
    settings = settings_of(certificates.server, tls_client_ca_file=commented.cert)
    async with serving(settings) as endpoint:
        assert await tenant_of_call(endpoint, shown(commented, certificates.client)) == "acme"
    assert [each["subject"] for each in client_ssl(commented.cert, None).get_ca_certs()]
