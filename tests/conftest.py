"""Fixtures of all tests: a clean environment, and the running system for tests that need one."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator

import grpc
import pytest
from hypothesis import settings
from xdist.remote import Producer

from antiphon_core.telemetry import unknown_events
from tests.clients.client_results import OPTION as CLIENTS_PAGE
from tests.clients.client_results import ClientResults
from tests.contract.store.kit_table import KitTable
from tests.support.scheduling import FilesTogether
from tests.support.system import System, split, up

for _name in [name for name in os.environ if name.startswith(("ANTIPHON_", "NIM_"))]:
    del os.environ[_name]  # a developer's own settings must not influence tests

# Antiphon refuses secret files that other users may read, so tests write them without access for others.
os.umask(0o027)


# A service passes on events that its release does not know. In tests there are none.
def _reject_event(event_type: str) -> None:
    raise AssertionError(f"antiphon_core.events has no row for '{event_type}'")


unknown_events.note = _reject_event

# grpc.aio stops its poller with its last object and waits for running calls, for ever if a failed test left a server
# running. One object that lives as long as the session turns such a hang into a failure.
grpc.aio.init_grpc_aio()

# Examples per property: few while you work, more in `make test`, random ones at night (--hypothesis-profile). Fixed
# examples do not surprise the next contributor. There is no deadline, because a slow machine is not a fault of the
# code.
settings.register_profile("quick", deadline=None, derandomize=True, max_examples=10)
settings.register_profile("full", deadline=None, derandomize=True, max_examples=20)
settings.register_profile("nightly", deadline=None, derandomize=False, max_examples=1000, print_blob=True)
settings.load_profile("quick")

WORKERS_MAX = 6
YOUNG_OBJECTS = 20_000
"""New objects that start a garbage collection. With Python's 700, collections took a seventh of the tests' time."""


def pytest_xdist_auto_num_workers() -> int:
    """Returns two more workers than there are cores: tests of integration, faults and contracts wait two thirds of the
    time for servers, disks and timeouts. `make test` runs two plain processes beside them. Each process takes 6 s to
    collect the tests, and half a gigabyte."""
    return min(len(os.sched_getaffinity(0)) + 2, WORKERS_MAX)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> FilesTogether | None:
    return FilesTogether(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(CLIENTS_PAGE, help="the page of the table of clients, to be written from this run")


def pytest_configure(config: pytest.Config) -> None:
    """Registers the tables, which the process that gets all test reports prints."""
    config.pluginmanager.register(KitTable(), "kit table")
    config.pluginmanager.register(ClientResults(config.getoption(CLIENTS_PAGE)), "client results")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """Collects tests without garbage collection, which would take an eighth of that time and free nothing."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Exempts the objects that test collection made from garbage collection, because they stay until the end. Searching
    them causes pauses, and a timeout would take such a pause for a server that does not answer."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 20, 20)


@pytest.fixture(scope="session")
def up_system(tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """`antiphon up` with the real Triton and SmolLM2, once for each process that runs tests."""
    with up(tmp_path_factory.mktemp("up")) as system:
        yield system


@pytest.fixture(scope="session")
def split_system(up_system: System, tmp_path_factory: pytest.TempPathFactory) -> Iterator[System]:
    """Store, translator and edge as processes of their own, over TCP."""
    folder = tmp_path_factory.mktemp("split")
    with split(folder, profiles=up_system.data / "profiles", model=up_system.model) as system:
        yield system


@pytest.fixture(scope="session", params=["one process", "split"])
def system(request: pytest.FixtureRequest) -> System:
    """The whole system, in one process and split."""
    name = "up_system" if request.param == "one process" else "split_system"
    found: System = request.getfixturevalue(name)
    return found
