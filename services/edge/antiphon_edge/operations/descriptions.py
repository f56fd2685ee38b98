"""Longer descriptions of operations, by the name of the operation."""

from __future__ import annotations

from collections.abc import Mapping

DESCRIPTIONS: Mapping[str, str] = {
    "createResponse": (
        "Returns the response when it has ended; with `stream` its events as they are generated; with `background` the "
        "queued response. Unless `store` is false, the response is stored before the answer or the last event is sent. "
        "If the client disconnects, the response is cancelled, except with `background` or an `Idempotency-Key`."
    ),
    "listResponses": (
        "Lists the responses of a `session` or `conversation` by creation time. For the next page, send `next_cursor` "
        "as `cursor`. Without either parameter the request must open a WebSocket. "
        'Over it a client sends `{"type": "response.create"}` with the members of a create request; each message of '
        "the server is one event. Responses with the same `stream_id` run one after another, those with different ones "
        "in parallel."
    ),
    "countInputTokens": "Counts with the model's own chat template and tokenizer. Nothing is generated or stored.",
    "compactConversation": (
        "The model summarises the assistant's messages and tool calls; all other messages are kept. Send `output` as "
        "the `input` of the next request. Nothing is stored."
    ),
    "getResponse": "Returns the response in its present state; with `stream` its events, until it ends.",
    "deleteResponse": (
        "The response is unreadable at once. If it runs in the background, it is cancelled. Responses that continue it "
        "keep working."
    ),
    "cancelResponse": (
        "Returns the response as it ended, even if it had ended before. To cancel a response that runs in the "
        "foreground, close its connection."
    ),
    "listInputItems": "The history that the response continues is not included.",
    "getTree": (
        "A node has the position of a response in its tree, not its content. A page of a large tree may have fewer "
        "nodes than `limit`, even none: it is the last one if `has_more` is false. `child_count` counts 10,000 "
        "children at most."
    ),
    "listChildren": "The responses that continue this one, oldest first.",
    "listSiblings": "The other responses that continue the parent of this one, oldest first.",
    "listLeaves": "The descendants of this response without children, oldest first.",
    "getChain": "A deleted response is represented by its id.",
    "explainCache": (
        "Names the cause for every token of the prompt that could have been in the cache: another endpoint, a restart, "
        "an eviction, another salt, or the first difference between two prompts. The prompts are made again; a cause "
        "in them is named only where what was stored with the responses proves their texts. Otherwise it is `unknown`."
    ),
    "forkSession": (
        "The history is shared, not copied. The other session does not change. To repeat a fork safely, name "
        "`new_session_id`; an `Idempotency-Key` is rejected."
    ),
    "createConversation": "Responses with this `conversation` continue it, and are added to it.",
    "updateConversation": "Replaces all metadata: names that are missing in the request are removed.",
    "deleteConversation": "Rejected while a response runs in the conversation.",
    "listApprovals": "The answer is an `mcp_approval_response` in the input of a request that continues its response.",
    "createPrompt": "To use it, send its id and the values of its variables as `prompt` of a create request.",
    "addPromptVersion": "Versions are immutable. If the latest version has the same content, none is added.",
    "deletePrompt": "Responses that were created with it keep its content.",
    "addItems": (
        "The items get new ids, which the answer contains. Rejected while a response runs in the conversation."
    ),
    "deleteItem": "Later responses in the conversation do not see the item. Returns the conversation.",
    "createChatCompletion": "The same turns as `/v1/responses`, in the format of chat completions. Nothing is stored.",
    "ready": (
        "200 if the store and at least one model are ready, otherwise 503 with the reason in `message`. A short outage "
        "of a dependency does not change the status."
    ),
}
