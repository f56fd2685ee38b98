"""The table of operations and the routes of the edge agree."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

from antiphon_edge.operations.table import OPERATIONS
from tests.support.edge import running_edge

README = Path(__file__).parents[4] / "services/edge/README.md"


async def test_the_table_and_the_routes_are_the_same() -> None:
    async with running_edge(console=False) as edge:  # the console is a page, and no part of the API
        routes = {
            (route.method, route.resource.canonical)
            for route in edge.server.app.router.routes()
            if route.resource is not None and route.method != "HEAD"
        }
    assert routes == {(operation.method, operation.path) for operation in OPERATIONS}


def test_operation_names_are_unique() -> None:
    twice = [name for name, count in Counter(operation.name for operation in OPERATIONS).items() if count > 1]
    assert not twice


def test_the_parameters_of_a_path_are_those_it_names() -> None:
    for operation in OPERATIONS:
        told = [parameter.name for parameter in operation.parameters if parameter.place == "path"]
        assert told == re.findall(r"{(\w+)}", operation.path), operation.name


def test_operation_with_a_body_or_a_stream_has_a_description() -> None:
    for operation in OPERATIONS:
        if operation.body or operation.events or operation.upgrades:
            assert operation.description, operation.name


def test_the_readme_names_every_path() -> None:
    readme = README.read_text(encoding="utf-8")
    for operation in OPERATIONS:
        last = operation.path.rpartition("/")[2]
        assert operation.path in readme or f"`{last}`" in readme, operation.path


def test_tags_follow_from_paths() -> None:
    tags = {operation.tag for operation in OPERATIONS}
    assert {"responses", "conversations", "sessions", "models", "documentation"} <= tags
