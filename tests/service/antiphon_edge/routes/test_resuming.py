from __future__ import annotations

from antiphon_edge.routes import resuming
from tests.support.edge import RunningEdge


async def test_background_stream_has_its_resume_path_in_a_header(edge: RunningEdge) -> None:
    async with edge.http.session.post(
        f"{edge.http.url}/v1/responses", json={"model": "m", "input": "hi", "background": True, "stream": True}
    ) as answer:
        path = answer.headers[resuming.HEADER]
    response_id = path.split("/")[3].partition("?")[0]
    assert path == f"/v1/responses/{response_id}?stream=true&starting_after={{sequence_number}}"
    async with edge.http.session.get(edge.http.url + path.format(sequence_number=0)) as resumed:
        assert (resumed.status, resumed.headers[resuming.HEADER]) == (200, path)


async def test_stream_of_a_keyed_turn_names_its_key_in_the_resume_header(edge: RunningEdge) -> None:
    body = {"model": "m", "input": "hi", "stream": True}
    keyed = await edge.ask("POST", "/v1/responses", body, headers={"Idempotency-Key": "k"})
    assert keyed.headers[resuming.HEADER] == "idempotency-key"
    assert resuming.HEADER not in (await edge.ask("POST", "/v1/responses", body)).headers


async def test_stream_of_a_stored_response_without_stored_events_has_no_resume_header(edge: RunningEdge) -> None:
    created = (await edge.create()).json
    answer = await edge.ask("GET", f"/v1/responses/{created['id']}?stream=true")
    assert (answer.status, resuming.HEADER in answer.headers) == (200, False)
