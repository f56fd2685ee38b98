"""Limits of connections, each with its unit and its reason. Callers change some of them by `Options`."""

from __future__ import annotations

# ---- Flow control: bytes that a peer may send before they are read ----
STREAM_WINDOW_BYTES = 256 * 2**10  # for a paused stream: 1,700 messages of one token; 128 MB for 512 streams
CONNECTION_WINDOW_BYTES = 16 * 2**20  # credited as data is read, so it only has to cover a round trip

# ---- What one peer may send ----
# One message of an engine: 16 tokens with their logits over a vocabulary of 200,000 words are 13 MB.
MESSAGE_BYTES_MAX = 16 * 2**20
ANSWER_HEADERS_BYTES_MAX = 64 * 2**10  # of one response, decoded; gRPC servers send 8 or 16 KiB at most
INTERIM_ITEMS_MAX = 32  # responses 1xx before one answer: real servers send one or two
CONTROL_ITEMS_MAX = 4_096  # frames without content at once: 30 ms, and the late frames of 1,000 cancelled calls
CONTROL_ITEMS_PER_S = 1_000  # later ones; servers send a ping in ten seconds, and the rest for what they get

# ---- What one client may send to a server ----
REQUEST_WINDOW_BYTES = 2**16 - 1  # of a call whose request nobody has asked for, such as before authentication
REQUEST_METADATA_BYTES_MAX = 16 * 2**10  # of one call, decoded; a call with more is rejected. gRPC's own default
REQUEST_BLOCK_BYTES_MAX = 20 * 2**10  # compressed: metadata that do not compress, and frame headers
REQUEST_LIST_BYTES_MAX = 64 * 2**10  # decoded: 2,048 fields, 6 ms. Beyond, the connection ends
SMALL_DATA_BYTES = 128  # a frame with less counts as one without content: honest clients send a message in one frame
STEP_ITEMS_MAX = 64  # frames of one connection in one step: half a millisecond; the headers of a call count as 25
# Calls without authentication, in items of work of 8 us; a call has 25, and more with many or long headers.
STRANGER_ITEMS_MAX = 25_000  # at once on one connection: 1,000 calls
STRANGER_ITEMS_PER_S = 2_500  # later ones: 100 calls, of which 2 % of an event loop are busy
ADDRESS_ITEMS_MAX = 100_000  # at once from one address: 200 clients that connect again, with their checks and watches
ADDRESS_ITEMS_PER_S = 10_000  # later ones: 400 calls
CONNECTION_ITEMS = 25  # for a new connection, until a caller is authenticated on it
HANDSHAKE_ITEMS = 128  # for its TLS handshake: a signature with RSA of 2,048 bits takes a millisecond
ADDRESSES_ITEMS_MAX = 4_096  # whose budgets are kept
STREAMS_ITEMS_MAX = 1_024  # calls at once on one connection
CONNECTIONS_ITEMS_MAX = 1_024  # at once, with those in the handshake
CALLER_CONNECTIONS_ITEMS_MAX = CONNECTIONS_ITEMS_MAX // 2  # of one caller: the rest is for others

# ---- What waits in this process ----
UNSENT_ANSWERS_BYTES_MAX = 64 * 2**10  # of one call; beyond, its handler waits until the client reads
UNREAD_ANSWERS_BYTES_MAX = 64 * 2**10  # unsent answers to pings and settings of a peer that does not read them
BURST_BYTES = 256 * 2**10  # bodies written to a socket before its write buffer is checked
SLICE_MESSAGES_MAX = 128  # of one stream, delivered in one iteration of the event loop
