"""Fixtures of this folder: whole systems whose models are scripts, for clients that do not block.

A test can look into `scripted`. `served` offers only its URL: either a system in one process, or `antiphon up` with
the same models on a real Triton. `client_server` is the server of clients in environments of their
own.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import aiohttp
import pytest

from tests.support.client_environments import Served, loopback_only
from tests.support.http import Http
from tests.support.in_a_thread import in_a_thread
from tests.support.scripted_system import MODEL, SEER, ScriptedSystem, scripted_system, scripted_system_in_a_thread
from tests.support.scripted_up import scripted_up


@pytest.fixture
async def scripted() -> AsyncIterator[ScriptedSystem]:
    async with scripted_system() as running:
        yield running


@pytest.fixture(scope="session")
def scripted_url() -> Iterator[str]:
    with scripted_system_in_a_thread() as url:
        yield url


@pytest.fixture(scope="session")
def scripted_up_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with in_a_thread(scripted_up(tmp_path_factory.mktemp("scripted"))) as system:
        yield system.url


@pytest.fixture(scope="session")
def client_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Antiphon with the models of client_models.py, in a network namespace with nothing else."""
    with loopback_only(tmp_path_factory.mktemp("served")) as running:
        yield running


@pytest.fixture(params=["scripted_url", "scripted_up_url"], ids=["one process", "antiphon up"])
def served_url(request: pytest.FixtureRequest) -> str:
    url: str = request.getfixturevalue(request.param)
    return url


@pytest.fixture
async def served(served_url: str) -> AsyncIterator[Http]:
    async with aiohttp.ClientSession() as session:
        yield Http(session, served_url)


@pytest.fixture(params=[MODEL, SEER])
def model(request: pytest.FixtureRequest) -> str:
    """Each model that a served system has."""
    name: str = request.param
    return name
