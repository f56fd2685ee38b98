from __future__ import annotations

from antiphon_edge.routes import resuming
from tests.support.edge import RunningEdge


async def test_a_background_stream_says_where_it_is_resumed(edge: RunningEdge) -> None:
    async with edge.http.session.post(
        f"{edge.http.url}/v1/responses", json={"model": "m", "input": "hi", "background": True, "stream": True}
    ) as answer:
        path = answer.headers[resuming.HEADER]
    response_id = path.split("/")[3].partition("?")[0]
    assert path == f"/v1/responses/{response_id}?stream=true&starting_after={{sequence_number}}"
    async with edge.http.session.get(edge.http.url + path.format(sequence_number=0)) as resumed:
        assert (resumed.status, resumed.headers[resuming.HEADER]) == (200, path)


async def test_a_stream_under_a_key_is_resumed_by_its_key(edge: RunningEdge) -> None:
    body = {"model": "m", "input": "hi", "stream": True}
    keyed = await edge.ask("POST", "/v1/responses", body, headers={"Idempotency-Key": "k"})
    assert keyed.headers[resuming.HEADER] == "idempotency-key"
    assert resuming.HEADER not in (await edge.ask("POST", "/v1/responses", body)).headers
