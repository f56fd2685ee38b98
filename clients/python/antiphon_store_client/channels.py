"""Options of channels and calls: TLS, token, deadlines, retries and message sizes."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, Self

import grpc

from antiphon_store_client.errors import InvalidArgument

Token = str | Callable[[], str]

_WORD = re.compile(r"[!-~]+")
_MESSAGE_BYTES_MAX = 48 * 2**20  # the largest message of the store

# With this config, gRPC itself retries repeatable calls after UNAVAILABLE.
SERVICE_CONFIG: dict[str, Any] = json.loads(
    files(__package__).joinpath("service_config.json").read_text(encoding="utf-8")
)
# The client passes each method's deadline with the call. With deadlines in the service config, gRPC ends calls about a
# second early and does not tell the server (grpc/grpc issues 34547 and 40633).
DEADLINES_S: dict[str, float] = {}
for _config in SERVICE_CONFIG["methodConfig"]:
    _deadline_s = float(_config.pop("timeout").removesuffix("s"))
    DEADLINES_S |= {f"/{name['service']}/{name['method']}": _deadline_s for name in _config["name"]}

OPTIONS: list[tuple[str, Any]] = [
    ("grpc.service_config", json.dumps(SERVICE_CONFIG)),
    ("grpc.max_receive_message_length", _MESSAGE_BYTES_MAX),
    ("grpc.max_send_message_length", _MESSAGE_BYTES_MAX),
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
]


def tls_credentials(
    ca_file: Path | str, *, cert_file: Path | str | None = None, key_file: Path | str | None = None
) -> grpc.ChannelCredentials:
    """Returns the credentials for a store whose certificate `ca_file` signed. `cert_file` and `key_file` are the
    caller's own, for a store that asks for them."""
    return grpc.ssl_channel_credentials(
        root_certificates=Path(ca_file).read_bytes(),
        private_key=None if key_file is None else Path(key_file).read_bytes(),
        certificate_chain=None if cert_file is None else Path(cert_file).read_bytes(),
    )


@dataclass(frozen=True, slots=True)
class CallOptions:
    """The metadata and deadline of each call."""

    tenant: str
    token: Token | None
    timeout_s: float | None

    def deadline_s(self, path: str) -> float:
        """Returns the deadline of one call: the caller's, or the method's own."""
        return DEADLINES_S[path] if self.timeout_s is None else self.timeout_s

    def metadata(self) -> list[tuple[str, str]]:
        """Returns the metadata of one call. A token that is a function is called each time; white space around a token,
        such as the line end of a file, is left out. InvalidArgument: no header can hold the token or the tenant."""
        metadata = [("antiphon-tenant", _checked(self.tenant, "tenant"))]
        if self.token is not None:
            token = self.token if isinstance(self.token, str) else self.token()
            metadata.append(("authorization", f"Bearer {_checked(token.strip(), 'token')}"))
        return metadata


def _checked(text: str, field: str) -> str:
    """Checks a text for a header. The error does not repeat it, since it may be secret."""
    if not _WORD.fullmatch(text):
        message = f"The {field} must be printable ASCII without spaces."
        raise InvalidArgument(message, code=grpc.StatusCode.INVALID_ARGUMENT, field=field)
    return text


class BaseClient:
    """The base of both clients: copies of a client share its channel, and differ in the options of their calls."""

    options: CallOptions

    def for_tenant(self, tenant: str) -> Self:
        """Returns this client for another tenant, over the same channel."""
        return self._with(replace(self.options, tenant=tenant))

    def with_timeout(self, timeout_s: float) -> Self:
        """Returns this client with a deadline for all calls, instead of the deadlines of the methods."""
        return self._with(replace(self.options, timeout_s=timeout_s))

    def _with(self, options: CallOptions) -> Self:
        view = copy(self)
        view.options = options
        return view
