"""gRPC over HTTP/2. README.md explains the protocol.

client/            calls streams of one server, or of all addresses of a name
server/            serves calls
connection.py      one end of a connection, without I/O
socket_link.py     its socket on an event loop
frames.py          the frame header, frames to send, errors in received ones
header_codec.py    HPACK with a cache
messages.py        reads messages from DATA payloads
sending.py         bodies under the peer's flow control
control_budget.py  the limit of frames without content
settings.py, statuses.py, errors.py, keepalive.py, limits.py
"""
