"""Every route stands in the table of operations, and every row has its route."""

from __future__ import annotations

import re
from collections import Counter

from antiphon_edge.openapi.operations import OPERATIONS
from tests.support.edge import running_edge


async def test_the_table_and_the_routes_are_the_same() -> None:
    async with running_edge() as edge:
        routes = {
            (route.method, route.resource.canonical)
            for route in edge.server.app.router.routes()
            if route.resource is not None and route.method != "HEAD"
        }
    assert routes == {(operation.method, operation.path) for operation in OPERATIONS}


def test_names_are_unique() -> None:
    twice = [name for name, count in Counter(operation.name for operation in OPERATIONS).items() if count > 1]
    assert not twice


def test_the_parameters_of_a_path_are_those_it_names() -> None:
    for operation in OPERATIONS:
        told = [parameter.name for parameter in operation.parameters if parameter.place == "path"]
        assert told == re.findall(r"{(\w+)}", operation.path), operation.name


def test_tags_follow_from_paths() -> None:
    tags = {operation.tag for operation in OPERATIONS}
    assert {"responses", "conversations", "sessions", "models", "documentation"} <= tags
