"""Real events match their schemas, and every event that the code can send has a schema."""

from __future__ import annotations

import pytest

from antiphon_core import events
from antiphon_edge.openapi import event_forms
from tests.support.document import require
from tests.support.scripted_system import MODEL, scripted_system

TYPES = {value for name, value in vars(events).items() if name.isupper() and isinstance(value, str)}


def test_every_event_type_that_clients_see_has_a_schema() -> None:
    assert set(event_forms.MEMBERS) == TYPES - {events.CANCELLED}


def test_every_schema_member_has_a_description() -> None:
    for event_type in event_forms.MEMBERS:
        members = event_forms.SCHEMAS[event_forms.name_of(event_type)]["properties"]
        assert [name for name, form in members.items() if "description" not in form] == ["type"], event_type


def test_schema_name_follows_from_the_event_type() -> None:
    assert event_forms.name_of("response.output_text.delta") == "ResponseOutputTextDeltaEvent"
    assert event_forms.name_of("error") == "ErrorEvent"


@pytest.mark.parametrize("text", ["Hi", "Think.", "Fail.", "Call."])
async def test_events_of_real_streams_match_their_schemas(text: str) -> None:
    tools = [{"type": "function", "name": "f"}] if text == "Call." else []
    async with scripted_system() as system:
        log = (await system.http.create(model=MODEL, input=text, tools=tools, stream=True)).events
    assert len(log) > 5
    for event in log:
        require(event_forms.name_of(event["type"]), event)
        require("StreamEvent", event)
