"""Parameters in paths, queries and headers. Their bounds are those that the handlers check."""

from __future__ import annotations

from dataclasses import dataclass, replace

from antiphon_core import limits
from antiphon_core.jsons import Object
from antiphon_core.ports.store import Order
from antiphon_edge.openapi.forms import BOOLEAN, STRING, array, one_of
from antiphon_edge.routes import idempotency_keys, queries
from antiphon_edge.routes.responses import SEQUENCE_MAX
from antiphon_edge.routes.sessions import SESSION_HEADER


@dataclass(frozen=True, slots=True)
class Parameter:
    """One of them; those in a path are always needed."""

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


def path(name: str, what: str) -> Parameter:
    return Parameter(name, "path", STRING | {"minLength": 1}, what)


def _query(name: str, schema: Object, description: str) -> Parameter:
    return Parameter(name, "query", schema, description)


def _limit(default: int, most: int) -> Parameter:
    schema: Object = {"type": "integer", "minimum": 1, "maximum": most, "default": default}
    return _query("limit", schema, "How many a page may hold.")


RESPONSE_ID = path("id", "The id of a response.")
CONVERSATION_ID = path("id", "The id of a conversation.")
PROMPT_ID = path("id", "The id of a prompt.")
ITEM_ID = path("item_id", "The id of an item in it.")
SESSION_ID = path("id", "The id of a session; those of conversations are such ids.")
MODEL_ID = path("id", "The name of a model.")

AFTER = _query("after", STRING, "The id of an item: the page begins behind it.")
OF_SESSION = _query("session", STRING, "The session whose responses are listed.")
OF_CONVERSATION = _query("conversation", STRING, "The conversation whose responses are listed, in place of `session`.")
AFTER_PROMPT = _query("after", STRING, "The id of a prompt: the page begins behind it.")
PROMPT_VERSION = _query(
    "version",
    {"type": "integer", "minimum": 1, "maximum": limits.PROMPT_VERSIONS_ITEMS_MAX},
    "Which version; the latest one unless it is named.",
)
CURSOR = _query("cursor", STRING, "`next_cursor` of the page before.")
ORDER = _query("order", one_of([order.value for order in Order]) | {"default": Order.DESCENDING.value}, "Which first.")
INCLUDE = _query("include", array(one_of(list(queries.INCLUDABLE))), "What to tell besides; checked, and adds nothing.")
INCLUDE_SEALED = replace(
    INCLUDE, description="What to tell besides: `reasoning.encrypted_content`. The rest is told as it is stored."
)
FROM_ROOT = _query("from_root", BOOLEAN, "The whole tree, and not only what is below this response.")
STREAM = _query("stream", BOOLEAN, "Events instead of one object: those that were sent, then those that come.")
STARTING_AFTER = _query(
    "starting_after",
    {"type": "integer", "minimum": 0, "maximum": SEQUENCE_MAX},
    "With `stream`: only events with a higher number. 400 where the events that were sent are not kept.",
)
ITEM_LIMIT = _limit(limits.PAGE_ITEMS_DEFAULT, limits.PAGE_ITEMS_MAX)
NODE_LIMIT = _limit(limits.LIST_ITEMS_DEFAULT, limits.LIST_ITEMS_MAX)
TREE_LIMIT = _limit(limits.TREE_NODES_DEFAULT, limits.TREE_NODES_MAX)

IDEMPOTENCY_KEY = Parameter(
    idempotency_keys.HEADER,
    "header",
    STRING | {"minLength": 1, "maxLength": limits.IDEMPOTENCY_KEY_BYTES_MAX},
    "The same request with the same key is done once.",
)
SESSION = Parameter(
    SESSION_HEADER,
    "header",
    STRING | {"pattern": "^[A-Za-z0-9_-]{1,128}$"},
    "The session that this turn continues, or begins; or the conversation that it continues.",
)
PAGE = (ITEM_LIMIT, ORDER, AFTER)
