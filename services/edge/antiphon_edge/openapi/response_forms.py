"""JSON schemas of answers: the response, its items, conversations, trees, models, errors.

They are written by hand; tests validate real answers against them.
"""

from __future__ import annotations

from antiphon_core.jsons import Object
from antiphon_core.ports.store import Status
from antiphon_core.request.items import MODEL_CALL_ID
from antiphon_core.request.server_items import PARALLEL_WITH
from antiphon_edge.operations.forms import (
    ANY_OBJECT,
    BOOLEAN,
    INTEGER,
    NUMBER,
    STRING,
    any_of,
    array,
    const,
    doc,
    mapping,
    nullable,
    one_of,
    record,
    schema_reference,
)

_ITEM_STATUS = one_of(["in_progress", "completed", "incomplete"])
_SECONDS = doc(INTEGER, "Unix time in seconds.")
_CALL_ID = doc(STRING, "The id that the output of the call must repeat.")
_NAMESPACE = doc(STRING, "The namespace of the tool.")
_MODEL_CALL_ID = doc(STRING, "The id that the model gave the call, where its next prompt needs it.")
_SERVER_LABEL = doc(STRING, "The label of the tool server in the request.")
_ASYNC = doc(BOOLEAN, "Whether the conversation may continue before the output is sent.")
_NEXT_CURSOR = "The `cursor` for the next page; null if there is none."
_METADATA = doc(mapping(STRING), "The metadata of the request.")


def _echo(schema: Object) -> Object:
    """A parameter of the request that the response repeats."""
    return doc(schema, "The value in the request, or the default.")


def _client_call(call_type: str, member: str, description: str, **others: Object) -> Object:
    """A call of a tool that the client runs. If the model wrote an invalid call, it is `incomplete` and empty."""
    return record(
        {
            "id": STRING,
            "type": const(call_type),
            "status": _ITEM_STATUS,
            "call_id": _CALL_ID,
            member: doc(ANY_OBJECT, description),
            **others,
        },
        {"environment": doc(ANY_OBJECT, "Where it runs: `local`.")} if call_type == "shell_call" else {},
    )


_PARTS: dict[str, Object] = {
    "OutputText": record(
        {
            "type": const("output_text"),
            "text": STRING,
            "annotations": doc(
                array(ANY_OBJECT), "A `url_citation` for each number in brackets that is one of a web search's results."
            ),
            "logprobs": doc(array(ANY_OBJECT), "Log probabilities of the tokens, if requested."),
        }
    ),
    "Refusal": record({"type": const("refusal"), "refusal": doc(STRING, "Why the model does not answer.")}),
    "ReasoningText": record({"type": const("reasoning_text"), "text": STRING}),
    "SummaryText": record({"type": const("summary_text"), "text": STRING}),
}

_OUTPUT_ITEMS: dict[str, Object] = {
    "OutputMessage": record(
        {
            "id": STRING,
            "type": const("message"),
            "role": const("assistant"),
            "status": _ITEM_STATUS,
            "content": doc(array(any_of("OutputText", "Refusal")), "The text or the refusal, in one part."),
        },
        {
            "phase": doc(
                one_of(["commentary", "final_answer"]), "Whether it is the final answer, or a comment before it."
            )
        },
    ),
    "OutputReasoning": record(
        {
            "id": STRING,
            "type": const("reasoning"),
            "summary": doc(
                array(schema_reference("SummaryText")), "The reasoning, if the request has `reasoning.summary`."
            ),
        },
        {
            "status": _ITEM_STATUS,
            "content": doc(array(schema_reference("ReasoningText")), "The reasoning, if it is not in `summary`."),
            "encrypted_content": doc(nullable(STRING), "The reasoning, sealed: only this server can open it."),
        },
    ),
    "OutputFunctionCall": record(
        {
            "id": STRING,
            "type": const("function_call"),
            "status": _ITEM_STATUS,
            "call_id": _CALL_ID,
            "name": STRING,
            "arguments": doc(STRING, "The JSON that the model wrote."),
        },
        {"namespace": _NAMESPACE, "async": _ASYNC, MODEL_CALL_ID: _MODEL_CALL_ID},
    ),
    "OutputCustomToolCall": record(
        {
            "id": STRING,
            "type": const("custom_tool_call"),
            "call_id": _CALL_ID,
            "name": STRING,
            "input": doc(STRING, "The text that the model wrote."),
        },
        {"status": _ITEM_STATUS, "namespace": _NAMESPACE, "async": _ASYNC, MODEL_CALL_ID: _MODEL_CALL_ID},
    ),
    "OutputShellCall": _client_call("shell_call", "action", "The commands to run."),
    "OutputLocalShellCall": _client_call("local_shell_call", "action", "The command to run."),
    "OutputApplyPatchCall": _client_call("apply_patch_call", "operation", "The change to make to a file."),
    "OutputComputerCall": record(
        {
            "id": STRING,
            "type": const("computer_call"),
            "status": _ITEM_STATUS,
            "call_id": _CALL_ID,
            "actions": doc(array(ANY_OBJECT), "The actions on the screen, in order."),
            "pending_safety_checks": doc(array(ANY_OBJECT), "Always empty."),
        },
    ),
    "OutputToolSearchCall": _client_call(
        "tool_search_call", "arguments", "What to search for.", execution=const("client")
    ),
    "OutputMcpListTools": record(
        {
            "id": STRING,
            "type": const("mcp_list_tools"),
            "server_label": _SERVER_LABEL,
            "tools": doc(array(ANY_OBJECT), "`name`, `description`, `input_schema` and `annotations` of each tool."),
        },
        {"error": doc(nullable(STRING), "Why the server gave no list; null otherwise.")},
    ),
    "OutputMcpCall": record(
        {
            "id": STRING,
            "type": const("mcp_call"),
            "status": one_of(["in_progress", "calling", "completed", "incomplete", "failed"]),
            "server_label": _SERVER_LABEL,
            "name": STRING,
            "arguments": doc(STRING, "The JSON that the model wrote."),
            "output": doc(nullable(STRING), "The result; null if there is none."),
            "error": doc(nullable(ANY_OBJECT), "Why there is no result; null otherwise."),
            "approval_request_id": doc(nullable(STRING), "The request that approved the call, or null."),
        },
        {PARALLEL_WITH: doc(STRING, "The first call that the model made together with this one.")},
    ),
    "OutputWebSearchCall": record(
        {
            "id": STRING,
            "type": const("web_search_call"),
            "status": one_of(["in_progress", "completed", "incomplete", "failed"]),
            "action": doc(ANY_OBJECT, "The `query`, and the `sources` that were found."),
            "results": doc(
                nullable(array(ANY_OBJECT)),
                "`number`, `url`, `title`, `text` and `date` of each: the model reads them.",
            ),
        },
        {
            "error": doc(ANY_OBJECT, "Why there are no results: its `message` is for the model."),
            PARALLEL_WITH: doc(STRING, "The first call that the model made together with this one."),
        },
    ),
    "OutputMcpApprovalRequest": record(
        {
            "id": doc(STRING, "The id that the answer, an `mcp_approval_response`, must repeat."),
            "type": const("mcp_approval_request"),
            "server_label": _SERVER_LABEL,
            "name": STRING,
            "arguments": doc(STRING, "The JSON that the model wrote."),
        },
        {PARALLEL_WITH: doc(STRING, "The first call that the model made together with this one.")},
    ),
    "OutputCompaction": record(
        {
            "id": STRING,
            "type": const("compaction"),
            "encrypted_content": doc(STRING, "The summary, sealed: only this server can open it."),
        },
    ),
}

_RESPONSE: dict[str, Object] = {
    "Usage": record(
        {
            "input_tokens": doc(INTEGER, "Tokens of the prompt."),
            "input_tokens_details": record(
                {"cached_tokens": INTEGER},
                {"cache_write_tokens": INTEGER},
                description="Input tokens that the engine had in its cache, and those that it has now written to it. "
                "Both are 0 if it reports nothing of its cache.",
            ),
            "output_tokens": doc(INTEGER, "Tokens that the model generated."),
            "output_tokens_details": record(
                {"reasoning_tokens": INTEGER}, description="Output tokens that are reasoning."
            ),
            "total_tokens": doc(INTEGER, "Input and output tokens."),
        }
    ),
    "Cause": record(
        {"reason": STRING},
        {"field": STRING, "code": STRING, "retry_after_ms": STRING},
        description="The name of the error, the path of the parameter that caused it, and its code.",
    ),
    "OutputItem": any_of(*_OUTPUT_ITEMS),
    "Response": record(
        {
            "id": doc(STRING, "The id by which it is read, continued, cancelled and deleted."),
            "object": const("response"),
            "created_at": _SECONDS,
            "completed_at": doc(nullable(INTEGER), "Unix time in seconds; null unless it is completed."),
            "status": doc(
                one_of([status.value for status in Status]),
                "`queued` or `in_progress`, then one of the other values, which is final.",
            ),
            "error": doc(
                nullable(record({"code": STRING, "message": STRING}, {"cause": schema_reference("Cause")})),
                "The error of a failed response; null otherwise.",
            ),
            "incomplete_details": doc(nullable(record({"reason": STRING})), "Why it is incomplete; null otherwise."),
            "model": doc(STRING, "The model of the request."),
            "output": doc(
                array(schema_reference("OutputItem")), "The reasoning, messages and calls of the model, in order."
            ),
            "usage": doc(nullable(schema_reference("Usage")), "Null until the response has ended."),
            "previous_response_id": doc(nullable(STRING), "The response that this one continues."),
            "instructions": doc(nullable(STRING), "The instructions of this response; they are not inherited."),
            "background": _echo(BOOLEAN),
            "store": _echo(BOOLEAN),
            "max_output_tokens": _echo(nullable(INTEGER)),
            "max_tool_calls": _echo(nullable(INTEGER)),
            "temperature": doc(NUMBER, "As the engine got it: from the request, or the default of the model."),
            "top_p": doc(NUMBER, "As for `temperature`."),
            "presence_penalty": doc(NUMBER, "As for `temperature`."),
            "frequency_penalty": doc(NUMBER, "As for `temperature`."),
            "top_logprobs": _echo(INTEGER),
            "truncation": _echo(one_of(["auto", "disabled"])),
            "parallel_tool_calls": _echo(BOOLEAN),
            "tool_choice": _echo({"anyOf": [STRING, ANY_OBJECT]}),
            "tools": doc(array(ANY_OBJECT), "The tools of the request, without `dropped_tools`."),
            "text": doc(
                record({"format": ANY_OBJECT}, {"verbosity": STRING}),
                "`format` of the request; `verbosity` is always `medium`.",
            ),
            "reasoning": doc(
                record({"effort": nullable(STRING), "summary": nullable(STRING)}),
                "`effort` as the model got it; null if its server takes none. `summary` is `detailed` if there is a "
                "summary, whichever was requested.",
            ),
            "metadata": _METADATA,
            "service_tier": doc(STRING, "Always `default`."),
            "safety_identifier": _echo(nullable(STRING)),
            "prompt_cache_key": _echo(nullable(STRING)),
        },
        {
            "conversation": doc(record({"id": STRING}), "The conversation that the response was added to."),
            "prompt": doc(ANY_OBJECT, "The stored prompt of the request, with the version that was used."),
            "prompt_cache_options": doc(
                record({"mode": STRING}), "Always `implicit`: engines cache every prefix, with or without hints."
            ),
            "prompt_cache_retention": doc(nullable(STRING), "`in_memory` if the request has a retention."),
            "dropped_tools": doc(
                array(STRING), "The types of hosted tools that were left out, if the operator has configured that."
            ),
            "user": _echo(nullable(STRING)),
            "encrypted_context": doc(
                STRING, "History and input, sealed, for clients that send the response as `previous_response`."
            ),
        },
    ),
    "DeletedResponse": record({"id": STRING, "object": const("response"), "deleted": {"const": True}}),
    "Compaction": record(
        {
            "id": STRING,
            "object": const("response.compaction"),
            "created_at": _SECONDS,
            "output": doc(array(ANY_OBJECT), "The next input: messages that are kept, and the compaction."),
            "usage": schema_reference("Usage"),
        }
    ),
    "InputTokens": record({"object": const("response.input_tokens"), "input_tokens": INTEGER}),
}

_LISTS: dict[str, Object] = {
    "StoredItem": doc(ANY_OBJECT, "An item of any type, as it was sent or generated, with its id."),
    "ItemList": record(
        {
            "object": const("list"),
            "data": doc(array(schema_reference("StoredItem")), "In the requested `order`."),
            "first_id": doc(nullable(STRING), "The id of the first item of the page; null if there is none."),
            "last_id": doc(nullable(STRING), "The id of the last item of the page: `after` for the next page."),
            "has_more": doc(BOOLEAN, "Whether there is a next page."),
        }
    ),
}

_CONVERSATIONS: dict[str, Object] = {
    "Conversation": record(
        {
            "id": doc(STRING, "The id, for `conversation` of a create request."),
            "object": const("conversation"),
            "created_at": _SECONDS,
            "metadata": _METADATA,
        }
    ),
    "DeletedConversation": record({"id": STRING, "object": const("conversation.deleted"), "deleted": {"const": True}}),
}

_TREES: dict[str, Object] = {
    "ResponseNode": record(
        {
            "id": doc(STRING, "The id of the response, or of items that were added to a conversation by hand."),
            "object": const("response.node"),
            "parent_id": doc(nullable(STRING), "The node that this one continues; null for a root."),
            "status": doc(nullable(STRING), "Null for a node that cannot be read, such as a deleted response."),
            "depth": doc(INTEGER, "The number of nodes above it; 0 for a root."),
            "child_count": doc(INTEGER, "The number of children that can be read."),
            "created_at": _SECONDS,
        }
    ),
    "NodeList": record(
        {
            "object": const("list"),
            "data": doc(array(schema_reference("ResponseNode")), "Oldest first; a tree by depth first."),
            "next_cursor": doc(nullable(STRING), _NEXT_CURSOR),
            "has_more": doc(BOOLEAN, "Whether there is a next page."),
        }
    ),
    "ResponseCache": record(
        {
            "object": const("response.cache"),
            "response_id": doc(STRING, "The id of the response."),
            "compared_id": doc(nullable(STRING), "The id of the response that it is compared with."),
            "prompt_tokens": doc(nullable(INTEGER), "Null where nothing is known of the prompt."),
            "cached_tokens": doc(
                nullable(INTEGER), "Those that the engine had cached; null if it does not report them."
            ),
            "lost_tokens": doc(nullable(INTEGER), "Tokens that it computed again, or could have had."),
            "new_tokens": doc(nullable(INTEGER), "All others."),
            "lost": doc(mapping(INTEGER), "The lost tokens, by cause."),
            "replica": doc(nullable(STRING), "A label of the place where the prompt lies; equal for equal places."),
            "comparison": doc(nullable(schema_reference("CacheComparison")), "The comparison with the other response."),
        }
    ),
    "CacheComparison": record(
        {
            "is_exact": doc(BOOLEAN, "Whether the texts of both prompts are proved."),
            "reusable_tokens": doc(nullable(INTEGER), "The tokens at the beginning of both; null if not known."),
            "replica": doc(nullable(STRING), "As in the response, of the other one."),
            "age_s": doc(nullable(INTEGER), "Seconds from the end of the other response to that of this one."),
            "first_difference": doc(
                nullable(schema_reference("CacheDifference")), "Null where one prompt begins with all of the other one."
            ),
        }
    ),
    "CacheDifference": record(
        {
            "cause": doc(STRING, "The cause, as in `lost`."),
            "token": doc(nullable(INTEGER), "The index of the first token that differs."),
            "char": doc(nullable(INTEGER), "The index of its character in the text of the prompt."),
            "path": doc(nullable(STRING), "The parameter or item; `history` are the items of all responses before."),
            "item_id": doc(nullable(STRING), "The id of the item."),
            "before": doc(nullable(STRING), "The text there in the other prompt, 200 characters at most."),
            "after": doc(nullable(STRING), "The text there in this prompt."),
        }
    ),
    "AddedItems": record({"id": STRING, "object": const("conversation.items")}),
    "ResponseList": record(
        {
            "object": const("list"),
            "data": doc(array(schema_reference("Response")), "In the requested `order`."),
            "next_cursor": doc(nullable(STRING), _NEXT_CURSOR),
            "has_more": doc(BOOLEAN, "Whether there is a next page."),
        }
    ),
    "Chain": record(
        {
            "object": const("list"),
            "data": array(any_of("Response", "DeletedResponse", "AddedItems")),
            "next_cursor": {"type": "null"},
            "has_more": {"const": False},
        },
        description="Root first.",
    ),
    "Session": record(
        {
            "id": doc(STRING, "The id of the new session."),
            "object": const("session"),
            "forked_from": doc(STRING, "The session whose history it begins with."),
            "head_id": doc(nullable(STRING), "The last response of the history; null if there is none."),
        },
        description="The new session; a conversation if its id begins with `conv_`.",
    ),
}

_PROMPT_HEAD: dict[str, Object] = {
    "id": doc(STRING, "The id, for `prompt.id` of a create request."),
    "object": const("prompt"),
    "created_at": _SECONDS,
    "version": doc(STRING, "The number of this version."),
    "latest_version": doc(STRING, "The number of the newest version."),
}
_PROMPTS: dict[str, Object] = {
    "Prompt": record(
        _PROMPT_HEAD
        | {
            "instructions": nullable(STRING),
            "input": doc(array(ANY_OBJECT), "Messages that are put before the input of the turn."),
            "variables": doc(array(STRING), "The names of the variables."),
        }
    ),
    "PromptHead": record(_PROMPT_HEAD, description="The latest version of a prompt, without its content."),
    "PromptList": record(
        {
            "object": const("list"),
            "data": doc(array(schema_reference("PromptHead")), "In the requested `order`."),
            "first_id": doc(nullable(STRING), "The id of the first prompt of the page; null if there is none."),
            "last_id": doc(nullable(STRING), "The id of the last prompt of the page: `after` for the next page."),
            "has_more": doc(BOOLEAN, "Whether there is a next page."),
        }
    ),
    "Approval": record(
        {
            "id": doc(STRING, "The id for `approval_request_id` of the answer."),
            "object": const("approval"),
            "created_at": _SECONDS,
            "response_id": doc(STRING, "The response that asks for it."),
            "server_label": _SERVER_LABEL,
            "name": STRING,
            "arguments": doc(STRING, "The JSON that the model wrote."),
        },
        description="A call that waits for an approval.",
    ),
    "ApprovalList": record(
        {
            "object": const("list"),
            "data": doc(array(schema_reference("Approval")), "In the requested `order`."),
            "next_cursor": doc(nullable(STRING), _NEXT_CURSOR),
            "has_more": doc(BOOLEAN, "Whether there is a next page."),
        }
    ),
    "DeletedPrompt": record({"id": STRING, "object": const("prompt.deleted"), "deleted": {"const": True}}),
}

_SERVICE: dict[str, Object] = {
    "Model": record(
        {
            "id": doc(STRING, "The name for `model` of a request."),
            "object": const("model"),
            "created": _SECONDS,
            "owned_by": doc(STRING, "`antiphon`."),
            "root": doc(STRING, "The same as `id`, as the NIM Operator expects."),
            "max_model_len": doc(
                nullable(INTEGER), "Tokens of prompt and answer together; null if only its server knows."
            ),
            "ready": doc(BOOLEAN, "Whether its engine is ready."),
        }
    ),
    "ModelList": record({"object": const("list"), "data": array(schema_reference("Model"))}),
    "Health": record({"object": const("health.response"), "message": STRING, "status": STRING}),
    "Metadata": record(
        {
            "version": doc(STRING, "The release."),
            "modelInfo": array(record({"shortName": doc(STRING, "The `id` of a model."), "modelUrl": STRING})),
            "assetInfo": array(STRING),
            "licenseInfo": record({"name": STRING}),
            "selectedModelProfileId": STRING,
            "repository_override": STRING,
        },
        description="The members of NIM. Those without a meaning here are empty.",
    ),
    "Version": record({"release": STRING, "api": const("v1")}),
    "Error": record(
        {
            "error": record(
                {"message": STRING, "type": STRING, "param": nullable(STRING), "code": nullable(STRING)},
            )
        },
        description="`param` is the path of the parameter that caused the error, `code` its code.",
    ),
}

SCHEMAS: dict[str, Object] = _PARTS | _OUTPUT_ITEMS | _RESPONSE | _LISTS | _CONVERSATIONS | _TREES | _PROMPTS | _SERVICE
