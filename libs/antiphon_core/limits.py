"""The limits of input, memory and time, each with its unit in its name and its reason beside it."""

from __future__ import annotations

# ---- HTTP requests ----
URL_BYTES_MAX = 16 * 2**10  # twice the usual limit of browsers and proxies
HEADER_BYTES_MAX = 64 * 2**10  # one header with its name: some clients put JSON about a whole turn into one
HEAD_BYTES_MAX = 256 * 2**10  # one whole head, received before the client is authenticated
HEADS_BYTES_MAX = 64 * 2**20  # all incomplete heads of a process; one peer may have an eighth
CHUNK_FRAMING_BYTES_MAX = 2 * 2**20  # of one body: 350,000 chunks, one for each token of its JSON
BODY_BYTES_MAX = 10 * 2**20  # OpenAI's own order of magnitude; one body is held in memory while it is parsed
JSON_DEPTH_MAX = 64  # real items nest < 20 levels; the JSON writer itself gives up at 254
JSON_VALUES_MAX = 200_000  # in one body: 4,096 items have < 50,000; parsing so many takes 15 ms, with the GIL held
INPUT_ITEMS_MAX = 4_096
SEALED_CONTEXT_BYTES_MAX = 6 * 2**20  # before sealing: the sealed form has to fit into the body of the next request
MEMBERS_ITEMS_MAX = 128  # of an object that rejects unknown members: a create request has 44
# In one item: parts of a content, words of a command, points of a path. To validate one takes up to 4 us.
PARTS_ITEMS_MAX = 4_096
ENVIRONMENT_ITEMS_MAX = 1_024  # variables of a shell: ten times what a usual one has
METADATA_PAIRS_MAX = 16  # OpenAI's, as the next two
METADATA_KEY_CHARS_MAX = 64
METADATA_VALUE_CHARS_MAX = 512
METADATA_BYTES_MAX = 256 * 2**10  # as JSON: sixteen pairs of these lengths, each character escaped, have 110 KB
SAFETY_IDENTIFIER_CHARS_MAX = 128
PERSONALITY_CHARS_MAX = 64  # OpenAI's
MODEL_NAME_CHARS_MAX = 256
TOP_LOGPROBS_MAX = 20
TOOLS_ITEMS_MAX = 512  # tools in one request: models handle far fewer
CALLERS_ITEMS_MAX = 16  # two exist, and clients may repeat them
SKILLS_ITEMS_MAX = 1_000  # folders with instructions: each is a line of the prompt
MODALITIES_ITEMS_MAX = 16  # two exist
CALL_ID_CHARS_MAX = 256  # OpenAI's have 64 at most; a history may hold longer ids of other servers
ITEM_ID_CHARS_MAX = 256
ITEM_TYPE_CHARS_MAX = 128  # types of items that other vendors define
TOOL_NAME_CHARS_MAX = 64  # OpenAI's
SERVER_TOOL_NAME_CHARS_MAX = 128  # names of an MCP server; the protocol has no limit and advises this one
# OpenAI's chat completions allow 4, llama.cpp and vLLM any number; every delta is searched for each of them.
STOP_TEXTS_ITEMS_MAX = 16
STOP_TEXT_CHARS_MAX = 256  # output that may be the beginning of a stop text is held back
GUIDE_CHARS_MAX = 64 * 2**10  # a regular expression or a grammar: engines compile it before the first token
GUIDE_CHOICES_ITEMS_MAX = 1_000

# ---- Images and files in a request ----
IMAGE_BYTES_MAX = 20 * 2**20  # one encoded image; the limit of commercial vision models
IMAGE_PIXELS_MAX = 2**26  # 200 MB when decoded; above, Pillow warns of a decompression bomb
IMAGES_ITEMS_MAX = 500  # in one turn with its history; OpenAI's
FILE_BYTES_MAX = 2**20  # text of one file: more tokens than most contexts hold
FILE_NAME_CHARS_MAX = 255  # what file systems allow
MEDIA_BYTES_MAX = 64 * 2**20  # all images and files of one turn; they are held in memory until the engine has them
MEDIA_REDIRECTS_MAX = 3
MEDIA_TURN_FETCHES_MAX = 4  # at once for one turn: half of its tenant's
MEDIA_TENANT_FETCHES_MAX = 8  # at once for one tenant: half of all, so that its slow servers delay no other tenant
MEDIA_FETCHES_MAX = 16  # at once for one replica: 320 MB of images at most

# ---- WebSockets ----
SOCKET_WAITING_ITEMS_MAX = 32  # requests that wait for an earlier response, of BODY_BYTES_MAX together
SOCKET_LANES_ITEMS_MAX = 32  # lanes in the lifetime of one connection; OpenAI's
SOCKET_HISTORIES_ITEMS_MAX = 64  # unstored responses that can be continued: two for each lane
SOCKET_HISTORIES_BYTES_MAX = 20 * 2**20  # all of them together: CHAIN_BYTES_MAX
STREAM_ID_CHARS_MAX = 256  # OpenAI's

# ---- Tools of tool servers ----
TOOL_SERVER_CHARS_MAX = 64  # the label of a server in items
TOOL_LABEL_CHARS_MAX = 48  # of a declared server: it stays whole in the names that the model sees, also in those cut
TOOL_CALL_ID_BYTES_MAX = 512  # the id of a response, and of a call in it
TOOL_ARGUMENTS_BYTES_MAX = 512 * 2**10  # of one call, in UTF-8: files have a way of their own

# ---- JSON schemas ----
INCLUDE_ITEMS_MAX = 64  # eight values exist, and clients may repeat them
SCHEMA_NAME_CHARS_MAX = 64  # OpenAI's, as the next four
SCHEMA_STRICT_DEPTH_MAX = 10  # nested objects and arrays, with `strict`
SCHEMA_PROPERTIES_ITEMS_MAX = 5_000
SCHEMA_ENUM_ITEMS_MAX = 1_000
SCHEMA_WORDS_CHARS_MAX = 120_000  # names of properties and definitions, and the texts of enum and const
SCHEMA_BYTES_MAX = 256 * 2**10  # SCHEMA_WORDS_CHARS_MAX, and as much again for descriptions
SCHEMA_DEPTH_MAX = 32  # nested schemas; real ones have < 15
SCHEMA_PATTERNS_ITEMS_MAX = 32  # distinct ones: each takes up to 10 ms to compile, which blocks the process
SCHEMA_PATTERN_CHARS_MAX = 1_000
SCHEMA_PATTERN_BYTES_MAX = 2**20  # compiled: enough for `.{800}`
SCHEMA_UNEVALUATED_NODES_MAX = (
    5_000  # to compile one takes 12 us and 6 KB; 24 levels of two references killed the process
)
SCHEMA_CACHE_ITEMS_MAX = 4_096  # digests, of 32 bytes, of function parameters that passed the checks
SCHEMAS_BYTES_MAX = 2 * 2**20  # all schemas of one request: 512 tools of 4 KiB
SCHEMAS_NODES_MAX = 20_000  # subschemas of one request, or of its format; to check one takes 14 us
SCHEMAS_PATTERN_US_MAX = 100_000  # to compile all patterns of one request: 100 ms, which blocks the process
# Visits of subschemas to values, 10 ns each with the GIL held: 20 ms for one answer.
ANSWER_CHECK_NODES_MAX = 2_000_000
ANSWER_EXPLAIN_NODES_MAX = 20_000  # to find the place of a mismatch takes a hundred times as long
ANSWER_CHECKS_NODES_PER_S = 5_000_000  # of one tenant: a twentieth of a processor
ANSWER_CHECKS_TENANTS_ITEMS_MAX = 4_096  # budgets that are remembered, 100 bytes each

# ---- Store ----
RECORD_BYTES_MAX = 16 * 2**20  # body and items of one response
RECORD_VALUES_MAX = 1_000_000  # JSON values in the items: a token with 20 alternatives has 150 in its log probabilities
ITEM_ID_BYTES_MAX = 4 * ITEM_ID_CHARS_MAX  # a key of an index: PostgreSQL stores none of more than 2,700 bytes
CHAIN_DEPTH_MAX = 1_000  # responses before one turn: a model's context is full much earlier
CHAIN_BYTES_MAX = 20 * 2**20
LINEAGE_BYTES_MAX = 64 * 2**10  # of one response, and of the chain that a turn gets: 32,000 ids that models wrote
LINEAGE_READ_BYTES_MAX = 80 * 2**10  # of a chain, as backends read them: sealed ones are longer
LINEAGE_KEYS_ITEMS_MAX = 4  # that a turn looks up; the first one is found unless a turn in between was not stored
REMEMBERED_LINEAGES_S = 600  # of responses that are not stored, by an edge: longer than most caches keep a prompt
PAGE_ITEMS_DEFAULT = 20  # OpenAI's
PAGE_ITEMS_MAX = 100
LOOKUP_ITEMS_MAX = 1_000  # ids in one BatchGet or ResolveItems
LIST_ITEMS_DEFAULT = 100
LIST_ITEMS_MAX = 1_000
PAGE_BYTES_MAX = 20 * 2**20  # records or items in one answer
TREE_NODES_DEFAULT = 1_000
TREE_NODES_MAX = 10_000
TREE_PART_NODES_MAX = 2_000  # a part of a tree that is read by going down from its top: about 10 ms
TREE_SCAN_NODES_MAX = 10_000  # responses that are read for one page, shown or not: about 100 ms
TREE_CHILDREN_NODES_MAX = 10_000  # on one page
TREE_CLEARED_NODES_MAX = 100_000  # unreadable responses that are removed when the id of one of them is used again
HOLDER_BYTES_MAX = 255
CONVERSATION_ITEMS_MAX = 20  # items added at once; OpenAI's
IDEMPOTENCY_KEY_BYTES_MAX = 255
IDEMPOTENCY_MEMORY_MS = 24 * 3_600_000  # how long a key is remembered after its write
LEASE_TTL_MS_DEFAULT = 30_000
LEASE_TTL_MS_MIN = 100
LEASE_TTL_MS_MAX = 3_600_000
LEASE_WAIT_MS_MAX = 60_000
SILENCE_MS_MIN = 250  # four heartbeats of a translator; a busy process delays one by tens of ms
SILENCE_MS_MAX = 86_400_000
RESTART_WAIT_S = 10  # as long as a restart of a service takes; the default of the setting `restart_wait_s`
APPEND_EVENTS_MAX = 10_000
APPEND_REQUEST_ITEMS_MAX = 256  # in one request
APPEND_BYTES_MAX = 20 * 2**20  # the last event of a response contains the whole response
EVENT_LOG_APPEND_BYTES = 64 * 2**10  # frames that wait for one append: beyond, a larger append saves nothing
EVENT_LOG_WAITING_BYTES_MAX = 8 * 2**20  # of one turn while the store is unreachable; then flow control stops the model
EVENT_LOG_LINGER_MS_MAX = 1_000  # with more, readers of other replicas would see the text in jerks
TOOL_ROUNDS_ITEMS_MAX = 1_000  # of one response; the setting is far below
STEP_BYTES_MAX = 64 * 2**10
APPROVALS_ITEMS_MAX = 256  # that one response asks for, or uses
APPROVAL_BYTES_MAX = 2 * 2**20  # the content of one: arguments of a call, as JSON text in JSON
STEPS_ITEMS_MAX = 256  # in one append: one for each call of a round
CHECKPOINT_ITEMS_MAX = 1_000_000  # token ids
EVENT_PAGE_BYTES = 2**20  # of an event log, read at once
JOB_PAYLOAD_BYTES_MAX = 20 * 2**20  # a request with its history
JOB_ATTEMPTS_ITEMS_DEFAULT = 3
JOB_ATTEMPTS_ITEMS_MAX = 100
JOB_DELAY_MS_MAX = 7 * 24 * 3_600_000
JOB_REASON_CHARS_MAX = 1_024
QUEUE_NAME_CHARS_MAX = 128
CLAIM_QUEUES_ITEMS_MAX = 16
QUOTA_DRAWS_ITEMS_MAX = 16  # buckets in one TakeQuota: an edge uses two
QUOTA_SLOTS_ITEMS_MAX = 1_000  # stream slots in one TakeQuota: an edge renews all slots of a tenant at once
QUOTA_BUCKETS_ITEMS_MAX = 256  # of a tenant; an edge uses two
QUOTA_HELD_ITEMS_MAX = 10_000  # stream slots that a tenant holds at once
QUOTA_NAME_CHARS_MAX = 128  # of a bucket or a stream slot
QUOTA_MEMORY_MS = 24 * 3_600_000  # lifetime of an idle bucket, so that workers can draw on it after the longest job
SWEEP_ITEMS_DEFAULT = 10_000
SWEEP_ITEMS_MAX = 100_000

# ---- Stored prompts ----
STORED_PROMPTS_ITEMS_MAX = 1_000  # of one tenant: a list reads all of them
PROMPT_VERSIONS_ITEMS_MAX = 1_000  # of one prompt
PROMPT_MESSAGES_ITEMS_MAX = 100
PROMPT_VARIABLES_ITEMS_MAX = 100
PROMPT_CONTENT_BYTES_MAX = 256 * 2**10  # of one version: a text that people write

# ---- Prompts ----
PROMPT_CACHE_BYTES_DEFAULT = 64 * 2**20  # for each model: token ids of a thousand chats of 10,000 tokens

# ---- Model outputs ----
# Text after an opening marker is held back until the parser knows whether it is a tool call, and is parsed again as
# text if it is not. This is ten times what real calls need, names and first arguments, and no delay to notice.
GIVE_BACK_CHARS_MAX = 4_096
# Arguments of a shell command, a patch or another call of a client's tool: Linux runs no command of more than 2 MiB.
CLIENT_CALL_CHARS_MAX = 2 * 2**20
OUTPUT_BYTES_MAX = 8 * 2**20  # text of one answer: two million tokens, and half of what a record holds

# ---- gRPC ----
# A commit carries one record, a turn a whole chain; both with room for the envelope.
RPC_MESSAGE_BYTES_MAX = 48 * 2**20
RPC_CONNECTION_STREAMS_ITEMS_MAX = 1_024  # calls at once; each holds 64 KiB until its caller is authenticated
RPC_CONNECTIONS_ITEMS_MAX = 1_024  # a client has one or two; a fleet of 200 edges and workers has 400
RPC_REQUESTS_BYTES_MAX = 384 * 2**20  # received and handled at once: eight of the largest

# ---- Errors ----
# The trailers of an RPC have 8 KiB and hold an error twice: percent-encoded (three bytes for one that is not ASCII),
# and in base64 (4/3).
ERROR_MESSAGE_BYTES_MAX = 1_200
ERROR_FACT_BYTES_MAX = 256

# ---- Streams ----
BATCH_EVENTS_MAX = 64  # events in one Generate message: past that a larger batch saves nothing measurable
BATCH_BYTES_MAX = 64 * 2**10
STREAM_WAITING_BYTES_MAX = 256 * 2**10  # frames that wait for a slow reader; beyond, flow control stops the engine
ENGINE_CONNECTIONS_ITEMS_MAX = 1_024  # HTTP connections to one server; further turns wait
FOLD_PENDING_BYTES_MAX = 64 * 2**10  # frames of a stream that an edge keeps unfolded
FOLD_LARGE_EVENT_BYTES = 16 * 2**10  # events of this size are kept unfolded, however many they are
FOLD_DELTAS_BYTES_MAX = 16 * 2**10  # deltas of one run, without their common head
# One message of an engine: 16 tokens with their logits over a vocabulary of 200,000 words are 13 MB.
ENGINE_MESSAGE_BYTES_MAX = 16 * 2**20
ENGINE_TEXT_BYTES_MAX = 4 * 2**20  # text in one message, or one event: a million tokens
ENGINE_METRICS_BYTES_MAX = 4 * 2**20  # of one page of metrics; that of vLLM has 100 KB
ENGINE_ERROR_CHARS_MAX = 16 * 2**10  # of an engine's error that are looked at: some servers repeat the whole prompt
# Parts of a message that are processed in one iteration of the event loop: 20 ms at most, whatever their content.
ENGINE_SLICE_ITEMS_MAX = 512  # token ids, log probabilities, segments
ENGINE_SLICE_CHARS_MAX = 4_096
ENGINE_SLICE_BYTES_MAX = 16 * 2**10  # as read: 60 events of vLLM
ENGINE_IDLE_BYTES_MAX = (
    2 * ENGINE_TEXT_BYTES_MAX
)  # without content yet: an event of the largest size, and as much again
ENGINE_IDLE_BYTES_PER_S = 32 * 2**10  # that are forgotten: ten times the keep-alives of the most talkative proxies
ENGINE_EVENT_ITEMS_MAX = 8_192  # choices, parts or calls in one event
OUTPUT_ITEMS_MAX = INPUT_ITEMS_MAX  # in one response: the next request could not send back more

# ---- Answers of HTTP servers, to the translator ----
HTTP_INTERIM_ITEMS_MAX = 32  # responses 1xx before one answer: real servers send one or two
HTTP_HEADS_BYTES_MAX = 256 * 2**10  # all heads of one answer: HEAD_BYTES_MAX
HTTP_FRAMING_BYTES_MAX = 128 * 2**10  # of chunks, besides a share of their content: 26,000 chunks of one byte, or 25 ms
HTTP_PIECE_BYTES_MAX = 4 * 2**10  # of a read that are parsed between two checks: 256 of the shortest heads
