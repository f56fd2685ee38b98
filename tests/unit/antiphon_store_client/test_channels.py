from __future__ import annotations

import json
from pathlib import Path

import grpc
import pytest

from antiphon_core.limits import RPC_MESSAGE_BYTES_MAX
from antiphon_core.rpc.methods import STORE
from antiphon_core.rpc.services import Repeat
from antiphon_store_client.channels import DEADLINES_S, OPTIONS, CallOptions, Token, tls_credentials
from antiphon_store_client.errors import InvalidArgument
from tests.support.certificates import authority, signed_by


def test_retries_and_deadlines_are_those_of_the_table_of_methods() -> None:
    configs = json.loads(dict(OPTIONS)["grpc.service_config"])["methodConfig"]
    can_repeat = {
        f"/{name['service']}/{name['method']}": "retryPolicy" in config for config in configs for name in config["name"]
    }
    public = {
        method.path: method.row for method in STORE.methods.values() if method.service.startswith("antiphon.store.v1.")
    }
    assert can_repeat == {path: row.repeat not in (Repeat.KEYED, Repeat.ITEMS) for path, row in public.items()}
    assert {path: row.deadline_s for path, row in public.items()} == DEADLINES_S


def test_a_caller_may_choose_another_deadline() -> None:
    path = "/antiphon.store.v1.Trees/GetChain"
    assert CallOptions("acme", None, None).deadline_s(path) == 15
    assert CallOptions("acme", None, 60.0).deadline_s(path) == 60


def test_answers_may_be_as_large_as_those_of_the_store() -> None:
    assert dict(OPTIONS)["grpc.max_receive_message_length"] == RPC_MESSAGE_BYTES_MAX


def test_a_token_that_is_a_function_is_asked_for_each_call() -> None:
    tokens = iter(["one", "two"])
    options = CallOptions("acme", lambda: next(tokens), None)
    sent = [dict(options.metadata())["authorization"] for _ in range(2)]
    assert sent == ["Bearer one", "Bearer two"]
    assert CallOptions("acme", None, None).metadata() == [("antiphon-tenant", "acme")]


def test_credentials_are_read_from_files(tmp_path: Path) -> None:
    signer = authority(tmp_path, "ca")
    mine = signed_by(signer, tmp_path, "mine")
    made = tls_credentials(signer.cert, cert_file=str(mine.cert), key_file=mine.key)
    assert isinstance(made, grpc.ChannelCredentials)


@pytest.mark.parametrize("token", ["secret\n", " secret", lambda: "secret\r\n"])
def test_white_space_around_a_token_is_left_out(token: Token) -> None:
    assert ("authorization", "Bearer secret") in CallOptions("acme", token, None).metadata()


@pytest.mark.parametrize(
    ("tenant", "token", "field"), [("acme", "sécret", "token"), ("acme", "two words", "token"), ("a b", None, "tenant")]
)
def test_a_token_that_no_header_can_hold_is_an_invalid_argument(tenant: str, token: str | None, field: str) -> None:
    with pytest.raises(InvalidArgument) as raised:
        CallOptions(tenant, token, None).metadata()
    assert raised.value.field == field
    assert token is None or token not in str(raised.value)
