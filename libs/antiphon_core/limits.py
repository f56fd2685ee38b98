"""Every bound that Antiphon puts on what it is given, with its unit in its name and its reason beside it."""

from __future__ import annotations

# ---- HTTP requests ----
URL_BYTES_MAX = 16 * 2**10  # twice what browsers and proxies are used to
HEADER_BYTES_MAX = 64 * 2**10  # one header with its name: clients send JSON about a whole turn in one
HEAD_BYTES_MAX = 256 * 2**10  # all of a head that comes in pieces, before anybody is known
HEADS_BYTES_MAX = 64 * 2**20  # of all heads that are not complete; a peer has an eighth
BODY_BYTES_MAX = 10 * 2**20  # OpenAI's own order of magnitude; one body is held in memory while it is parsed
JSON_DEPTH_MAX = 64  # real items nest < 20 levels; the JSON writer itself gives up at 254
JSON_VALUES_MAX = 200_000  # in one body: 4,096 items have < 50,000; to make so many takes 15 ms, with the GIL held
INPUT_ITEMS_MAX = 4_096
SEALED_CONTEXT_BYTES_MAX = 6 * 2**20  # before it is sealed: it has to fit into the body of the request that brings it
METADATA_PAIRS_MAX = 16  # these three are OpenAI's
METADATA_KEY_CHARS_MAX = 64
METADATA_VALUE_CHARS_MAX = 512
METADATA_BYTES_MAX = 256 * 2**10  # as JSON: sixteen pairs of these lengths, each character escaped, have 110 KB
SAFETY_IDENTIFIER_CHARS_MAX = 128
PERSONALITY_CHARS_MAX = 64  # OpenAI's
MODEL_NAME_CHARS_MAX = 256
TOP_LOGPROBS_MAX = 20
TOOLS_ITEMS_MAX = 512  # tools in one request: a model is lost long before
CALL_ID_CHARS_MAX = 256  # OpenAI mints and takes 64; ids of other servers, which a history may hold, are longer
ITEM_ID_CHARS_MAX = 256
ITEM_TYPE_CHARS_MAX = 128  # of items that others invented
TOOL_NAME_CHARS_MAX = 64  # OpenAI's
STOP_TEXTS_ITEMS_MAX = (
    16  # OpenAI's chat completions take 4, llama.cpp and vLLM any number; each is looked for in each text
)
STOP_TEXT_CHARS_MAX = 256  # the end of a text that may begin a stop text is held back
GUIDE_CHARS_MAX = 64 * 2**10  # a regular expression or a grammar: engines compile it before the first token
GUIDE_CHOICES_ITEMS_MAX = 1_000

# ---- Images and files in a request ----
IMAGE_BYTES_MAX = 20 * 2**20  # one image as it comes, not decoded; what vision models are sold with
IMAGE_PIXELS_MAX = 2**26  # 200 MB once an engine has decoded them; past that Pillow itself warns of bombs
IMAGES_ITEMS_MAX = 500  # in one turn with its history; OpenAI's
FILE_BYTES_MAX = 2**20  # text of one file: more tokens than most contexts hold
FILE_NAME_CHARS_MAX = 255  # what file systems allow
MEDIA_BYTES_MAX = 64 * 2**20  # all images and files of one turn; they are held in memory until the engine has them
MEDIA_URL_CHARS_MAX = 8_192  # signed URLs stay far below
MEDIA_REDIRECTS_MAX = 3
MEDIA_TURN_FETCHES_MAX = 4  # at once, so that one turn does not take all of the next
MEDIA_TENANT_FETCHES_MAX = 8  # at once: half of all, so that one tenant's slow servers cost another no wait
MEDIA_FETCHES_MAX = 16  # at once in one replica: 320 MB of images at most

# ---- WebSockets ----
SOCKET_WAITING_ITEMS_MAX = 32  # messages that wait for the response before them; a body's bytes in all
SOCKET_LANES_ITEMS_MAX = 32  # names of lanes in the life of one connection; OpenAI's
SOCKET_HISTORIES_ITEMS_MAX = 64  # responses that are not stored and can be continued: two of each lane
SOCKET_HISTORIES_BYTES_MAX = 20 * 2**20  # of all of them: as much as one chain may have
STREAM_ID_CHARS_MAX = 256  # OpenAI's

# ---- JSON schemas ----
SCHEMA_NAME_CHARS_MAX = 64  # OpenAI's, as the next four
SCHEMA_STRICT_DEPTH_MAX = 10  # objects and arrays in each other, with `strict`
SCHEMA_PROPERTIES_ITEMS_MAX = 5_000
SCHEMA_ENUM_ITEMS_MAX = 1_000
SCHEMA_WORDS_CHARS_MAX = 120_000  # names of properties and definitions, and the texts of enum and const
SCHEMA_BYTES_MAX = 256 * 2**10  # those, and as much again to describe them
SCHEMA_DEPTH_MAX = 32  # schemas in each other; real ones have < 15
SCHEMA_PATTERNS_ITEMS_MAX = 32  # different ones: each takes up to 10 ms to compile, in which nothing else runs
SCHEMA_PATTERN_CHARS_MAX = 1_000
SCHEMA_PATTERN_BYTES_MAX = 2**20  # compiled: enough for 800 times any character
SCHEMA_CACHE_ITEMS_MAX = 4_096  # parameters of functions that were found good, as digests of 32 bytes
SCHEMAS_BYTES_MAX = 2 * 2**20  # all schemas of one request: 512 tools of 4 KiB
SCHEMAS_NODES_MAX = 20_000  # schemas in all of them; 10,000 properties take 100 ms to be looked at
SCHEMAS_PATTERN_US_MAX = 100_000  # to compile all their patterns: 100 ms, in which nothing else runs
# Schemas times characters: about a second (seconds, with the worst of patterns) in which nothing else runs.
ANSWER_CHECK_NODES_MAX = 100_000_000
ANSWER_EXPLAIN_NODES_MAX = 1_000_000  # to say where it fails costs a hundred times as much

# ---- Store ----
RECORD_BYTES_MAX = 16 * 2**20  # body and items of one response
CHAIN_DEPTH_MAX = 1_000  # responses behind one turn: a model's context is full long before
CHAIN_BYTES_MAX = 20 * 2**20
PAGE_ITEMS_DEFAULT = 20  # OpenAI's
PAGE_ITEMS_MAX = 100
LOOKUP_ITEMS_MAX = 1_000  # ids in one BatchGet or ResolveItems
LIST_ITEMS_DEFAULT = 100
LIST_ITEMS_MAX = 1_000
PAGE_BYTES_MAX = 20 * 2**20  # records or items in one answer
TREE_NODES_DEFAULT = 1_000
TREE_NODES_MAX = 10_000
TREE_WALK_NODES_MAX = 100_000  # responses that one page of a tree or of leaves looks at: about a second of work
HOLDER_BYTES_MAX = 255
CONVERSATION_ITEMS_MAX = 20  # items added at once; OpenAI's
IDEMPOTENCY_KEY_BYTES_MAX = 255
IDEMPOTENCY_MEMORY_MS = 24 * 3_600_000  # how long a key is remembered after its write
LEASE_TTL_MS_DEFAULT = 30_000
LEASE_TTL_MS_MIN = 100
LEASE_TTL_MS_MAX = 3_600_000
LEASE_WAIT_MS_MAX = 60_000
SILENCE_MS_MIN = 250  # of a translator: four heartbeats fit into it, and a busy process is late by tens of these
APPEND_EVENTS_MAX = 10_000
APPEND_REQUEST_ITEMS_MAX = 256  # in one request
APPEND_BYTES_MAX = 20 * 2**20  # the last event of a response repeats the whole of it
EVENT_LOG_APPEND_BYTES = 64 * 2**10  # of frames that wait: an append of more costs what its bytes cost
EVENT_LOG_WAITING_BYTES_MAX = 8 * 2**20  # while the store is away, for each turn; then its model waits, too
EVENT_LOG_LINGER_MS_MAX = 1_000  # a reader elsewhere would see the text come in jerks
CHECKPOINT_ITEMS_MAX = 1_000_000  # token ids
EVENT_PAGE_BYTES = 2**20  # how much of a log is read at once
JOB_PAYLOAD_BYTES_MAX = 20 * 2**20  # a request with its history
JOB_ATTEMPTS_ITEMS_DEFAULT = 3
JOB_ATTEMPTS_ITEMS_MAX = 100
JOB_DELAY_MS_MAX = 7 * 24 * 3_600_000
JOB_REASON_CHARS_MAX = 1_024
QUEUE_NAME_CHARS_MAX = 128
CLAIM_QUEUES_ITEMS_MAX = 16
SPEND_DRAWS_ITEMS_MAX = 16  # buckets in one spend: an edge has two
SPEND_PLACES_ITEMS_MAX = 1_000  # places in one spend: what an edge holds for one tenant is renewed in one
SPEND_NAME_CHARS_MAX = 128  # of a bucket, or a place
SPENDING_MEMORY_MS = 24 * 3_600_000  # how long an idle bucket is known to who cannot describe it: the longest job
SWEEP_ITEMS_DEFAULT = 10_000
SWEEP_ITEMS_MAX = 100_000

# ---- Stored prompts ----
STORED_PROMPTS_ITEMS_MAX = 1_000  # of one tenant: a list reads all of them
PROMPT_VERSIONS_ITEMS_MAX = 1_000  # of one prompt
PROMPT_MESSAGES_ITEMS_MAX = 100
PROMPT_VARIABLES_ITEMS_MAX = 100
PROMPT_CONTENT_BYTES_MAX = 256 * 2**10  # of one version: a text that people write

# ---- Prompts ----
PROMPT_CACHE_BYTES_DEFAULT = 64 * 2**20  # for each model: ids of a thousand chats of 10,000 tokens

# ---- Model outputs ----
# Text behind an opener that is held back until it is known to be a call or not, and is read again where it is none:
# names and the first arguments of real calls fit ten times, and a reader notices no delay.
GIVE_BACK_CHARS_MAX = 4_096
OUTPUT_BYTES_MAX = 8 * 2**20  # text of one answer: two million tokens, and half of what a record holds

# ---- gRPC ----
# A commit carries one record, a turn a whole chain; both with room for the envelope.
RPC_MESSAGE_BYTES_MAX = 48 * 2**20
RPC_CONNECTION_STREAMS_ITEMS_MAX = 1_024  # calls at once; each holds 64 KiB until it is known
RPC_CONNECTIONS_ITEMS_MAX = 1_024  # a client has one or two; a fleet of 200 edges and workers has 400
RPC_REQUESTS_BYTES_MAX = 384 * 2**20  # received and handled at once: eight of the largest

# ---- Errors ----
# The trailers of an RPC hold 8 KiB, and an error twice: what is not ASCII at three bytes for each, then all at 4/3.
ERROR_MESSAGE_BYTES_MAX = 1_200
ERROR_FACT_BYTES_MAX = 256

# ---- Streams ----
BATCH_EVENTS_MAX = 64  # events in one Generate message: past that a larger batch saves nothing measurable
BATCH_BYTES_MAX = 64 * 2**10
STREAM_WAITING_BYTES_MAX = 256 * 2**10  # frames that wait for a slow reader, then flow control stops the engine
ENGINE_CONNECTIONS_ITEMS_MAX = 1_024  # HTTP, to one server: more turns than it runs at once, the others wait
FOLD_PENDING_BYTES_MAX = 64 * 2**10  # frames of a stream that an edge keeps unfolded
FOLD_DELTAS_BYTES_MAX = 16 * 2**10  # of deltas, without what their frames have in common
# One message of an engine: 16 tokens with their logits over a vocabulary of 200,000 words are 13 MB.
ENGINE_MESSAGE_BYTES_MAX = 16 * 2**20
ENGINE_TEXT_BYTES_MAX = 4 * 2**20  # text in one message, or one event: a million tokens
# Of a message, processed in one iteration of the event loop: within 20 ms, whatever it says.
ENGINE_SLICE_ITEMS_MAX = 512  # token ids, log probabilities, segments
ENGINE_SLICE_CHARS_MAX = 4_096

# ---- HTTP/2 streams ----
HTTP2_STREAM_WINDOW_BYTES = 256 * 2**10  # of a paused stream: 1,700 messages of one token; 128 MB for 512 streams
HTTP2_CONNECTION_WINDOW_BYTES = 16 * 2**20  # given back with every read, so it only has to cover a round trip
HTTP2_HEADERS_BYTES_MAX = 64 * 2**10  # of one response, decoded; gRPC servers keep to 8 or 16 KiB by themselves
HTTP2_ANSWERS_BYTES_MAX = 64 * 2**10  # to pings and settings, for a peer that does not read them
HTTP2_BURST_BYTES = 256 * 2**10  # of requests, handed to a socket before it is asked whether it takes more
