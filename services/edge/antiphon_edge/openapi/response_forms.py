"""Answers as JSON schemas: the response, its items, conversations, trees, models, errors.

Written once, here; tests hold real answers against it.
"""

from __future__ import annotations

from antiphon_core.jsons import Object
from antiphon_core.ports.store import Status
from antiphon_edge.openapi.forms import (
    ANY_OBJECT,
    BOOLEAN,
    INTEGER,
    NUMBER,
    STRING,
    any_of,
    array,
    const,
    mapping,
    named,
    nullable,
    one_of,
    record,
    said,
)

_ITEM_STATUS = one_of(["in_progress", "completed", "incomplete"])
_SECONDS = said(INTEGER, "Unix time in seconds.")
_CALL_ID = said(STRING, "What the output of the call has to name.")
_NAMESPACE = said(STRING, "The namespace that the tool is in.")
_ASYNC = said(BOOLEAN, "True if the conversation may go on before the output comes.")
_NEXT_CURSOR = "`cursor` of the next page; null if there is none."
_METADATA = said(mapping(STRING), "Texts by name, as they were given.")


def _asked(schema: Object) -> Object:
    """A parameter of the request."""
    return said(schema, "As asked for, or what holds where nothing was.")


def _client_call(call_type: str, member: str, description: str) -> Object:
    """A call of a tool that the caller runs. One that cannot be read is `incomplete`, and empty."""
    return record(
        {
            "id": STRING,
            "type": const(call_type),
            "status": _ITEM_STATUS,
            "call_id": _CALL_ID,
            member: said(ANY_OBJECT, description),
        },
        {"environment": said(ANY_OBJECT, "Where it runs: `local`.")} if call_type == "shell_call" else {},
    )


_PARTS: dict[str, Object] = {
    "OutputText": record(
        {
            "type": const("output_text"),
            "text": STRING,
            "annotations": said(array(ANY_OBJECT), "None: no model here cites anything."),
            "logprobs": said(array(ANY_OBJECT), "Of its tokens, where asked for."),
        }
    ),
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
            "content": said(array(named("OutputText")), "What is said, in one part."),
        },
        {
            "phase": said(
                one_of(["commentary", "final_answer"]), "Whether it is the answer, or was said on the way there."
            )
        },
    ),
    "OutputReasoning": record(
        {
            "id": STRING,
            "type": const("reasoning"),
            "summary": said(array(named("SummaryText")), "The thoughts, where `reasoning.summary` was asked for."),
        },
        {
            "status": _ITEM_STATUS,
            "content": said(array(named("ReasoningText")), "The thoughts, where no summary has them."),
            "encrypted_content": said(nullable(STRING), "Sealed: only this server can open it."),
        },
    ),
    "OutputFunctionCall": record(
        {
            "id": STRING,
            "type": const("function_call"),
            "status": _ITEM_STATUS,
            "call_id": _CALL_ID,
            "name": STRING,
            "arguments": said(STRING, "JSON, as the model wrote it."),
        },
        {"namespace": _NAMESPACE, "async": _ASYNC},
    ),
    "OutputCustomToolCall": record(
        {
            "id": STRING,
            "type": const("custom_tool_call"),
            "call_id": _CALL_ID,
            "name": STRING,
            "input": said(STRING, "As the model wrote it."),
        },
        {"status": _ITEM_STATUS, "namespace": _NAMESPACE, "async": _ASYNC},
    ),
    "OutputShellCall": _client_call("shell_call", "action", "The commands to run."),
    "OutputLocalShellCall": _client_call("local_shell_call", "action", "The command to run."),
    "OutputApplyPatchCall": _client_call("apply_patch_call", "operation", "What to do to which file."),
    "OutputComputerCall": record(
        {
            "id": STRING,
            "type": const("computer_call"),
            "status": _ITEM_STATUS,
            "call_id": _CALL_ID,
            "actions": said(array(ANY_OBJECT), "What to do on the screen, in its order."),
            "pending_safety_checks": said(array(ANY_OBJECT), "None."),
        },
    ),
    "OutputCompaction": record(
        {
            "id": STRING,
            "type": const("compaction"),
            "encrypted_content": said(STRING, "The summary, sealed: only this server can open it."),
        },
    ),
}

_RESPONSE: dict[str, Object] = {
    "Usage": record(
        {
            "input_tokens": said(INTEGER, "Tokens of the prompt."),
            "input_tokens_details": record(
                {"cached_tokens": INTEGER},
                {"cache_write_tokens": INTEGER},
                description="Those of them that the engine had in its cache, where it says so.",
            ),
            "output_tokens": said(INTEGER, "Tokens that the model generated."),
            "output_tokens_details": record(
                {"reasoning_tokens": INTEGER}, description="Those of them that are reasoning."
            ),
            "total_tokens": said(INTEGER, "Both together."),
        }
    ),
    "Cause": record(
        {"reason": STRING},
        {"field": STRING, "code": STRING, "retry_after_ms": STRING},
        description="The name of the fault, the path of the culprit, and what was wrong with it.",
    ),
    "OutputItem": any_of(*_OUTPUT_ITEMS),
    "Response": record(
        {
            "id": said(STRING, "By what it is read, continued, cancelled and deleted."),
            "object": const("response"),
            "created_at": _SECONDS,
            "completed_at": said(nullable(INTEGER), "Unix time in seconds; null unless it is completed."),
            "status": said(
                one_of([status.value for status in Status]),
                "`queued` or `in_progress`, and in the end one of the others for good.",
            ),
            "error": said(
                nullable(record({"code": STRING, "message": STRING}, {"cause": named("Cause")})),
                "Why it failed; null unless it did.",
            ),
            "incomplete_details": said(nullable(record({"reason": STRING})), "Why it was cut off; null unless it was."),
            "model": said(STRING, "The model that was asked for."),
            "output": said(array(named("OutputItem")), "What the model thought, said and called, as it came."),
            "usage": said(nullable(named("Usage")), "Null until it has its end."),
            "previous_response_id": said(nullable(STRING), "The response that it continues."),
            "instructions": said(nullable(STRING), "Those of this response; they are not inherited."),
            "background": _asked(BOOLEAN),
            "store": _asked(BOOLEAN),
            "max_output_tokens": _asked(nullable(INTEGER)),
            "max_tool_calls": _asked(nullable(INTEGER)),
            "temperature": said(NUMBER, "What the engine was given: as asked for, else what the model recommends."),
            "top_p": said(NUMBER, "As for `temperature`."),
            "presence_penalty": said(NUMBER, "As for `temperature`."),
            "frequency_penalty": said(NUMBER, "As for `temperature`."),
            "top_logprobs": _asked(INTEGER),
            "truncation": _asked(one_of(["auto", "disabled"])),
            "parallel_tool_calls": _asked(BOOLEAN),
            "tool_choice": _asked({"anyOf": [STRING, ANY_OBJECT]}),
            "tools": said(array(ANY_OBJECT), "As asked for, without those that were dropped."),
            "text": said(
                record({"format": ANY_OBJECT}, {"verbosity": STRING}),
                "`format` as asked for; `verbosity` is `medium`, whichever was asked for.",
            ),
            "reasoning": said(
                record({"effort": nullable(STRING), "summary": nullable(STRING)}),
                "As asked for; `summary` is `detailed` where there is one, whichever was asked for.",
            ),
            "metadata": _METADATA,
            "service_tier": said(STRING, "`default`, whatever was asked for."),
            "safety_identifier": _asked(nullable(STRING)),
            "prompt_cache_key": _asked(nullable(STRING)),
        },
        {
            "conversation": said(record({"id": STRING}), "The conversation that it was added to."),
            "prompt": said(ANY_OBJECT, "The stored prompt that was asked for, with the version that was taken."),
            "prompt_cache_options": said(
                record({"mode": STRING}), "`implicit`: engines cache every prefix, whichever hints were given."
            ),
            "prompt_cache_retention": said(nullable(STRING), "`in_memory` where a retention was asked for."),
            "dropped_tools": said(
                array(STRING), "The types of hosted tools that were left out, where the operator has them dropped."
            ),
            "user": _asked(nullable(STRING)),
            "encrypted_context": said(
                STRING, "What was said before it, sealed, for who brings it back as `previous_response`."
            ),
        },
    ),
    "DeletedResponse": record({"id": STRING, "object": const("response"), "deleted": {"const": True}}),
    "Compaction": record(
        {
            "id": STRING,
            "object": const("response.compaction"),
            "created_at": _SECONDS,
            "output": said(array(ANY_OBJECT), "The next input: what others said, and the compaction of the rest."),
            "usage": named("Usage"),
        }
    ),
    "InputTokens": record({"object": const("response.input_tokens"), "input_tokens": INTEGER}),
}

_LISTS: dict[str, Object] = {
    "StoredItem": said(ANY_OBJECT, "An item of any type, as it was said, with its id."),
    "ItemList": record(
        {
            "object": const("list"),
            "data": said(array(named("StoredItem")), "In the `order` that was asked for."),
            "first_id": said(nullable(STRING), "Of the first item here; null if there is none."),
            "last_id": said(nullable(STRING), "Of the last item here: `after` for the next page."),
            "has_more": said(BOOLEAN, "Whether there is a next page."),
        }
    ),
}

_CONVERSATIONS: dict[str, Object] = {
    "Conversation": record(
        {
            "id": said(STRING, "`conversation` of the responses in it."),
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
            "id": said(STRING, "The response's, or that of items added by hand."),
            "object": const("response.node"),
            "parent_id": said(nullable(STRING), "What it continues; null for a root."),
            "status": said(nullable(STRING), "Null for what cannot be read and only connects what can."),
            "depth": said(INTEGER, "How many are above it; 0 for a root."),
            "child_count": said(INTEGER, "How many that can be read continue it."),
            "created_at": _SECONDS,
        }
    ),
    "NodeList": record(
        {
            "object": const("list"),
            "data": said(array(named("ResponseNode")), "A tree by depth, then oldest first; others oldest first."),
            "next_cursor": said(nullable(STRING), _NEXT_CURSOR),
            "has_more": said(BOOLEAN, "Whether there is a next page."),
        }
    ),
    "AddedItems": record({"id": STRING, "object": const("conversation.items")}),
    "ResponseList": record(
        {
            "object": const("list"),
            "data": said(array(named("Response")), "In the `order` that was asked for."),
            "next_cursor": said(nullable(STRING), _NEXT_CURSOR),
            "has_more": said(BOOLEAN, "Whether there is a next page."),
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
            "id": said(STRING, "The new session's."),
            "object": const("session"),
            "forked_from": said(STRING, "The session whose history it begins with."),
            "head_id": said(nullable(STRING), "The last response of that history; null if there is none."),
        },
        description="A conversation, if its id begins with `conv_`.",
    ),
}

_PROMPT_HEAD: dict[str, Object] = {
    "id": said(STRING, "`prompt.id` of the turns that name it."),
    "object": const("prompt"),
    "created_at": _SECONDS,
    "version": said(STRING, "The number of this version."),
    "latest_version": said(STRING, "The number of the newest version."),
}
_PROMPTS: dict[str, Object] = {
    "Prompt": record(
        _PROMPT_HEAD
        | {
            "instructions": nullable(STRING),
            "input": said(array(ANY_OBJECT), "Messages that come before the input of the turn."),
            "variables": said(array(STRING), "The names of its variables."),
        }
    ),
    "PromptHead": record(_PROMPT_HEAD, description="The latest version of a prompt, without what it says."),
    "PromptList": record(
        {
            "object": const("list"),
            "data": said(array(named("PromptHead")), "In the `order` that was asked for."),
            "first_id": said(nullable(STRING), "Of the first prompt here; null if there is none."),
            "last_id": said(nullable(STRING), "Of the last prompt here: `after` for the next page."),
            "has_more": said(BOOLEAN, "Whether there is a next page."),
        }
    ),
    "DeletedPrompt": record({"id": STRING, "object": const("prompt.deleted"), "deleted": {"const": True}}),
}

_SERVICE: dict[str, Object] = {
    "Model": record(
        {
            "id": said(STRING, "What requests call it."),
            "object": const("model"),
            "created": _SECONDS,
            "owned_by": said(STRING, "`antiphon`."),
            "root": said(STRING, "Equal to `id`, as the NIM Operator wants it."),
            "max_model_len": said(
                nullable(INTEGER), "Tokens that prompt and answer have together; null where only its server knows."
            ),
            "ready": said(BOOLEAN, "Whether its engine would answer now."),
        }
    ),
    "ModelList": record({"object": const("list"), "data": array(named("Model"))}),
    "Health": record({"object": const("health.response"), "message": STRING, "status": STRING}),
    "Metadata": record(
        {
            "version": said(STRING, "The release."),
            "modelInfo": array(record({"shortName": said(STRING, "The `id` of a model."), "modelUrl": STRING})),
            "assetInfo": array(STRING),
            "licenseInfo": record({"name": STRING}),
            "selectedModelProfileId": STRING,
            "repository_override": STRING,
        },
        description="NIM's members. Those that have no meaning here are empty.",
    ),
    "Version": record({"release": STRING, "api": const("v1")}),
    "Error": record(
        {
            "error": record(
                {"message": STRING, "type": STRING, "param": nullable(STRING), "code": nullable(STRING)},
            )
        },
        description="`param` is the path of the culprit, `code` says what was wrong with it.",
    ),
}

SCHEMAS: dict[str, Object] = _PARTS | _OUTPUT_ITEMS | _RESPONSE | _LISTS | _CONVERSATIONS | _TREES | _PROMPTS | _SERVICE
