"""A real Prometheus from Debian's package that scrapes processes on this machine.

with prometheus(folder, {"edge": 9464}, rules) as server:
    await server.value('up{container="edge"}')
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from tests.support.children import start_child
from tests.support.debian import found_or_installed
from tests.support.ports import HOST, free_ports

NAMESPACE = "test"
"""The labels of every series, as in a cluster."""


@dataclass(frozen=True, slots=True)
class Prometheus:
    url: str

    async def series(self, query: str) -> list[dict[str, Any]]:
        """Returns the result of a query now; nothing while Prometheus starts."""
        try:
            async with (
                aiohttp.ClientSession() as session,
                session.get(f"{self.url}/api/v1/query", params={"query": query}) as answer,
            ):
                document = await answer.json()
        except (aiohttp.ClientConnectionError, aiohttp.ContentTypeError):
            return []
        assert document["status"] in ("success", "error"), document
        assert "parse error" not in document.get("error", ""), f"{query}: {document}"
        found: list[dict[str, Any]] = document.get("data", {}).get("result", [])
        return found

    async def ranges(self, query: str, *, start_s: float, end_s: float, step_s: float) -> list[dict[str, Any]]:
        """Returns the series of a query over a time, each with its `metric` and `values`."""
        parameters = {"query": query, "start": f"{start_s}", "end": f"{end_s}", "step": f"{step_s}"}
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"{self.url}/api/v1/query_range", params=parameters) as answer,
        ):
            document = await answer.json()
        assert document["status"] == "success", f"{query}: {document}"
        found: list[dict[str, Any]] = document["data"]["result"]
        return found


@contextmanager
def prometheus(folder: Path, targets: Mapping[str, int], rules: Mapping[str, Any]) -> Iterator[Prometheus]:
    """Runs a server that scrapes these ports and evaluates these rules every second."""
    program = found_or_installed(lambda: shutil.which("prometheus"), "prometheus")
    (folder / "rules.yaml").write_text(yaml.safe_dump(dict(rules)), encoding="utf-8")
    scraped = [
        {"targets": [f"{HOST}:{port}"], "labels": {"container": name, "pod": f"{name}-0", "namespace": NAMESPACE}}
        for name, port in targets.items()
    ]
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [{"job_name": "antiphon", "static_configs": scraped}],
    }
    (folder / "prometheus.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    (port,) = free_ports(1)
    place = [f"--config.file={folder}/prometheus.yaml", f"--storage.tsdb.path={folder}/data"]
    process = start_child(
        [program, *place, f"--web.listen-address={HOST}:{port}", "--log.level=error"], stderr=subprocess.DEVNULL
    )
    try:
        yield Prometheus(f"http://{HOST}:{port}")
    finally:
        process.kill()
        process.wait()
