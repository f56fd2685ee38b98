from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from antiphon_core.errors import EngineMisconfigured
from antiphon_translator.engines import request_headers
from antiphon_translator.models.profiles import ModelProfile


def profile(key_file: Path | None = None) -> ModelProfile:
    return ModelProfile(name="m", endpoint="http://vllm:8000/v1", api_key_file=key_file)


def test_key_is_read_again_for_each_request(tmp_path: Path) -> None:
    file = tmp_path / "key"
    assert "Authorization" not in request_headers.of(profile())
    for key in ("one", "two"):
        file.write_text(f"{key}\n")
        assert request_headers.of(profile(file))["Authorization"] == f"Bearer {key}"


@pytest.mark.parametrize("content", [None, b"short", b"\xff" * 20])
def test_file_without_a_session_secret_is_a_mistake_of_the_operator(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "secret"
    routed = replace(profile(), session_secret_file=file)
    file.write_text("0123456789abcdef\n")
    assert request_headers.session_secret(routed) == b"0123456789abcdef"
    assert request_headers.session_secret(profile()) == b""
    file.unlink() if content is None else file.write_bytes(content)
    with pytest.raises(EngineMisconfigured, match="Only an operator"):
        request_headers.session_secret(routed)


@pytest.mark.parametrize("content", [None, b"", b"two words", b"\xff", "\u00e9".encode()])
def test_file_without_a_key_for_a_header_is_a_mistake_of_the_operator(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "key"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(EngineMisconfigured, match="Only an operator"):
        request_headers.of(profile(file))
