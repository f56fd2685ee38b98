"""Runs docs/howto/use-with-*.md section by section with the documented clients."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.client_results import PROPERTY
from tests.clients.client_table import CLIENTS, CORE, FEATURES, expected_fields, models_of
from tests.support.client_environments import Client, Served, block_runner, features, programs
from tests.support.client_models import CHAT, MODELS
from tests.support.howto import blocks
from tests.support.volume import IS_NIGHTLY, volume
from tests.support.waiting import until

WEBSOCKET = "GET /v1/responses 101"


def feature_groups(client: Client) -> list[tuple[str, ...]]:
    """The features of the client that this run tests, in groups: one test for each group. Those of a client in Python
    are one group, whose test imports the client once; in the nightly run and `make clients` each feature has its own
    test."""
    tested = [feature for feature in features(client) if volume(client.is_core and feature in CORE, nightly=True)]
    if client.is_python and tested and not IS_NIGHTLY:
        return [tuple(tested)]
    return [(feature,) for feature in tested]


SECTIONS = [
    pytest.param(client, group, model, id=f"{client.name}-{'+'.join(group)}-{model}")
    for client in CLIENTS
    for group in feature_groups(client)
    for model in models_of(group[0])[: volume(1, None)]
]


@pytest.mark.parametrize(("client", "features", "model"), SECTIONS)
async def test_programs_of_a_section_print_the_documented_output(
    client: Client,
    features: tuple[str, ...],
    model: str,
    client_server: Served,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    request.node.user_properties.extend((PROPERTY, f"{client.name}|{feature}") for feature in features)
    sockets = client_server.answered(WEBSOCKET)
    sections = [programs(client, feature, model) for feature in features]
    to_run = [block for run, _ in sections for block in run]
    reader = block_runner(client, tmp_path, client_server.entry)
    printed = reader.run_forked(to_run) if client.is_python else reader.run_all(to_run)
    assert printed == "".join(shown for _, shown in sections)
    if "WebSocket" in features:  # a client may have fallen back to HTTP
        await until(lambda: client_server.answered(WEBSOCKET) > sockets, "a connection of a WebSocket")


@pytest.mark.parametrize("feature", volume(["Resume"], ["Text", "Shell", "Patches", "Resume", "WebSocket"]))
@pytest.mark.parametrize("model", volume(["qwen3.5"], list(MODELS)))
async def test_codex_prints_the_documented_output_with_chat_servers(
    feature: str, model: str, client_server: Served, tmp_path: Path
) -> None:
    (codex,) = (client for client in CLIENTS if client.name == "codex")
    run, shown = programs(codex, feature, model + CHAT)
    assert block_runner(codex, tmp_path, client_server.entry).run_all(run) == shown


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_every_section_is_a_known_feature_with_a_program_and_output(client: Client) -> None:
    assert set(features(client)) <= set(FEATURES)
    for feature in features(client):
        run, shown = programs(client, feature, "qwen3")
        assert run, feature
        assert shown, feature
    languages = {block.language for block in blocks(client.page)}
    assert languages <= {"console", "sh", "python", "js", "text"}


def test_the_table_has_a_passed_field_for_every_section() -> None:
    fields = expected_fields()
    assert fields == [
        (client.name, feature, str(len(models_of(feature))))
        for client in CLIENTS
        for feature in FEATURES
        if feature in features(client)
    ]
