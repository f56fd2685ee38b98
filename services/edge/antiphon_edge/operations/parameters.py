"""Parameters in paths, queries and headers. Their bounds are the constants that the handlers check."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import get_args

from antiphon_core import limits
from antiphon_core.jsons import Object
from antiphon_core.ports.store import Order
from antiphon_core.request.body import Include
from antiphon_edge.operations.forms import BOOLEAN, STRING, array, one_of


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter. Parameters in a path are required, all others optional."""

    name: str
    place: str
    schema: Object
    description: str

    def as_object(self) -> Object:
        return {
            "name": self.name,
            "in": self.place,
            "required": self.place == "path",
            "schema": self.schema,
            "description": self.description,
        }


SEQUENCE_MAX = 2**53
"""Up to here JSON numbers are exact."""


def path(name: str, what: str) -> Parameter:
    return Parameter(name, "path", STRING | {"minLength": 1}, what)


def _query(name: str, schema: Object, description: str) -> Parameter:
    return Parameter(name, "query", schema, description)


def _limit(default: int, most: int) -> Parameter:
    schema: Object = {"type": "integer", "minimum": 1, "maximum": most, "default": default}
    return _query("limit", schema, "The maximum number of entries on a page.")


RESPONSE_ID = path("id", "The id of a response.")
CONVERSATION_ID = path("id", "The id of a conversation.")
PROMPT_ID = path("id", "The id of a prompt.")
ITEM_ID = path("item_id", "The id of an item in the conversation.")
SESSION_ID = path("id", "The id of a session or conversation.")
MODEL_ID = path("id", "The name of a model.")

AFTER = _query("after", STRING, "The id of an item: the page begins after it.")
OF_SESSION = _query("session", STRING, "The session whose responses are listed.")
OF_CONVERSATION = _query("conversation", STRING, "The conversation whose responses are listed, in place of `session`.")
AFTER_PROMPT = _query("after", STRING, "The id of a prompt: the page begins after it.")
PROMPT_VERSION = _query(
    "version",
    {"type": "integer", "minimum": 1, "maximum": limits.PROMPT_VERSIONS_ITEMS_MAX},
    "The version; the latest one by default.",
)
CURSOR = _query("cursor", STRING, "`next_cursor` of the previous page.")
ORDER = _query(
    "order",
    one_of([order.value for order in Order]) | {"default": Order.DESCENDING.value},
    "`asc` for oldest first, `desc` for newest first.",
)
INCLUDE = _query("include", array(one_of(list(get_args(Include)))), "Validated, but adds nothing to the answer.")
INCLUDE_SEALED = replace(
    INCLUDE, description="`reasoning.encrypted_content` adds sealed reasoning. Other values add nothing."
)
COMPARE = _query(
    "compare",
    STRING,
    "The id of an earlier response to compare the prompt with, or `parent` for the one that this response continues. "
    "Without it the answer has no comparison, and costs no more than a read.",
)
FROM_ROOT = _query("from_root", BOOLEAN, "Whether to list the whole tree, not only this response and its descendants.")
STREAM = _query("stream", BOOLEAN, "Whether to return events instead of one object: past events first, then new ones.")
STARTING_AFTER = _query(
    "starting_after",
    {"type": "integer", "minimum": 0, "maximum": SEQUENCE_MAX},
    "With `stream`: only events with a higher number. 400 if the past events are not stored any more.",
)
ITEM_LIMIT = _limit(limits.PAGE_ITEMS_DEFAULT, limits.PAGE_ITEMS_MAX)
NODE_LIMIT = _limit(limits.LIST_ITEMS_DEFAULT, limits.LIST_ITEMS_MAX)
TREE_LIMIT = _limit(limits.TREE_NODES_DEFAULT, limits.TREE_NODES_MAX)

IDEMPOTENCY_KEY = Parameter(
    "Idempotency-Key",
    "header",
    STRING | {"minLength": 1, "maxLength": limits.IDEMPOTENCY_KEY_BYTES_MAX},
    "A request that is repeated with the same key is executed once.",
)
SESSION = Parameter(
    "x-antiphon-session",
    "header",
    STRING | {"pattern": "^[A-Za-z0-9_-]{1,128}$"},
    "The session that this turn continues or begins, or the conversation that it continues.",
)
PAGE = (ITEM_LIMIT, ORDER, AFTER)
