"""Descriptions of operations whose summary does not say all, by the name of the operation."""

from __future__ import annotations

from collections.abc import Mapping

DESCRIPTIONS: Mapping[str, str] = {
    "createResponse": (
        "What comes back is the response at its end; with `stream` its events as they come; with `background` the "
        "response as it is queued. It is stored before its end is told, unless `store` is false. Hanging up stops "
        "the model, except in the background and under an `Idempotency-Key`."
    ),
    "listResponses": (
        "`session` or `conversation` says whose responses are listed, by the time at which they were made; "
        "`next_cursor` goes into `cursor` of the same list. Without either, only a WebSocket is served. "
        'Each message of the client is `{"type": "response.create"}` with the members of a create request; each '
        "message of the server is one event. Responses of one `stream_id` run one after the other, those of different "
        "ones side by side."
    ),
    "countInputTokens": "Counted with the model's own template and tokenizer. Nothing is generated or kept.",
    "compactConversation": (
        "The model sums up what the assistant said and did; what others said stays. `output` is the `input` of "
        "the next request. Nothing is kept."
    ),
    "getResponse": "As it is now; with `stream` as events, up to its end.",
    "deleteResponse": (
        "It is gone at once; if it runs in the background it is stopped. Responses that continue it keep working."
    ),
    "cancelResponse": (
        "What comes back is the response as it ended, also if it had ended before. One that a caller waits for is "
        "stopped by hanging up."
    ),
    "listInputItems": "Without the history before it.",
    "getTree": "A node tells where a response stands, not what it says.",
    "listChildren": "Those that continue it, oldest first.",
    "listSiblings": "The others that continue what it continues, oldest first.",
    "listLeaves": "Those below it that nothing continues, oldest first.",
    "getChain": "In place of one that was deleted stands its id.",
    "forkSession": "At the same cost however long that history is. The other session stays as it is.",
    "createConversation": "Responses that name it as their `conversation` continue it and are added to it.",
    "updateConversation": "All of it: what the request does not have is gone.",
    "deleteConversation": "Refused while a response runs in it.",
    "createPrompt": "A turn names it, and the values of its variables, as `prompt`.",
    "addPromptVersion": ("Versions never change. Where the latest one says the same already, nothing is added."),
    "deletePrompt": "Responses that were made with it keep what it said.",
    "addItems": (
        "They get ids of their own, which the answer tells. Refused while a response runs in the conversation."
    ),
    "deleteItem": "No later response in the conversation is told of it. What comes back is the conversation.",
    "createChatCompletion": "The turns of `/v1/responses` in the older spelling. Nothing is kept.",
    "ready": (
        "200 when the store and at least one model are ready; otherwise 503, whose message says what is missing."
    ),
}
