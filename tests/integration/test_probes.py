"""Every probe of the manifests, sent as a kubelet sends it, is answered by the process that it is for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import aiohttp
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2

from tests.support.fake_chat import MODEL, fake_chat
from tests.support.in_a_thread import in_a_thread
from tests.support.manifests import of_kind, overlay, pod_templates
from tests.support.ports import HOST
from tests.support.served_models import write_profile
from tests.support.system import Processes
from tests.support.waiting import WAIT_MAX_S

PROBED = ("edge", "translator", "store")


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, int]]:
    """The port of each service."""
    with in_a_thread(fake_chat()) as chat:
        folder = tmp_path_factory.mktemp("probes")
        profiles = write_profile(folder, chat.endpoint, engine="openai_chat", chat_model=MODEL)
        processes = Processes(profiles, {target: [f"--{target}-drain-s=1"] for target in PROBED})
        try:
            processes.start()
            yield processes.ports
        finally:
            processes.stop()


async def test_every_probe_of_the_manifests_succeeds(ports: dict[str, int]) -> None:
    probes = list(_probes())
    assert {name for name, _ in probes} == set(PROBED)
    async with aiohttp.ClientSession() as session:
        for name, probe in probes:
            async with asyncio.timeout(WAIT_MAX_S):
                while not await _succeeds(session, probe, ports[name]):
                    await asyncio.sleep(0.1)


async def test_a_service_that_does_not_exist_is_not_ready(ports: dict[str, int]) -> None:
    async with aiohttp.ClientSession() as session:
        assert not await _succeeds(session, {"grpc": {"service": "antiphon.none"}}, ports["store"])


def _probes() -> Iterator[tuple[str, dict[str, Any]]]:
    for document in of_kind(overlay("dev"), "Deployment"):
        for pod in pod_templates(document):
            (container,) = pod["spec"]["containers"]
            found = [
                container[name] for name in ("startupProbe", "livenessProbe", "readinessProbe") if name in container
            ]
            yield from ((document["metadata"]["name"], probe) for probe in found)


async def _succeeds(session: aiohttp.ClientSession, probe: dict[str, Any], port: int) -> bool:
    if "httpGet" in probe:
        async with session.get(f"http://{HOST}:{port}{probe['httpGet']['path']}") as answer:
            return 200 <= answer.status < 400
    request = health_pb2.HealthCheckRequest(service=probe["grpc"].get("service", ""))
    async with grpc.aio.insecure_channel(f"{HOST}:{port}") as channel:
        check = channel.unary_unary(
            "/grpc.health.v1.Health/Check",
            request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
            response_deserializer=health_pb2.HealthCheckResponse.FromString,
        )
        try:
            answered = await check(request)
        except grpc.aio.AioRpcError:
            return False
    return bool(answered.status == health_pb2.HealthCheckResponse.SERVING)
