"""Runs llmprobe, a conformance suite for servers of OpenAI's APIs, on all APIs that Antiphon serves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.client_environments import Client, Served, block_runner
from tests.support.howto import Block

PROBE = "llmprobe http://127.0.0.1:8000 --model {model} --no-bench --no-save --json 2> errors || test $? -eq 1"
OF_THE_SCRIPT = {"responses-previous-response-id"}  # the scripted models answer another question than the suite's
# The suite expects Open Responses' names of reasoning events; OpenAI's SDKs know `response.reasoning_text.delta`.
OF_REASONING = {"responses-streaming"}


@pytest.mark.parametrize(("model", "failing"), [("mistral-small", set()), ("qwen3", OF_REASONING)])
def test_llmprobe_reports_only_known_failures(
    model: str, failing: set[str], client_server: Served, tmp_path: Path
) -> None:
    probe = block_runner(Client("llmprobe", "llmprobe"), tmp_path, client_server.entry)
    report = json.loads(probe.run(Block("", "sh", PROBE.format(model=model))))
    results = report["conformance"]["results"]
    assert {each["id"] for each in results if each["outcome"] == "fail"} == OF_THE_SCRIPT | failing
    passed = {surface["surface"]: surface["passed"] for surface in report["conformance"]["bySurface"]}
    assert passed["responses"] > 40
    assert passed["chat"] > 50
