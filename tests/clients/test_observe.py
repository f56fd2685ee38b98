"""Tests the commands of docs/howto/observe.md and the members of a log line that it names."""

from __future__ import annotations

import json
import re
import shlex
import urllib.request
from pathlib import Path

from tests.support.howto import Block, blocks
from tests.support.ports import free_ports
from tests.support.system import Command

PAGE = Path(__file__).parents[2] / "docs/howto/observe.md"


def test_store_serves_metrics_and_writes_json_logs_as_documented(tmp_path: Path) -> None:
    (metrics,) = _blocks("Metrics")
    (log,) = _blocks("Logs")
    name, _, value = log.text.strip().partition("=")
    for line in metrics.text.splitlines():
        (port,) = free_ports(1)
        options = [*shlex.split(line.replace("9100", str(port)), comments=True)[2:], "--store-port=0"]
        store = Command("serve", *options, folder=tmp_path, environ={name: value})
        try:
            store.wait_for("^store +")
            text = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
            assert re.search("^antiphon_", text, re.MULTILINE)
        finally:
            store.stop()
        written = [json.loads(line) for line in store.lines if line.startswith("{")]
        assert written
        assert all({"ts", "level", "logger", "event"} <= set(each) for each in written)


def _blocks(section: str) -> list[Block]:
    return [block for block in blocks(PAGE) if block.section == section and block.language == "bash"]
