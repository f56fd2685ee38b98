"""A fast client of gRPC streams over HTTP/2, for RPCs whose messages come token by token.

docs/adr/0050-lean-http2-reader.md has the reasons not to use grpc.aio.

    client.py      GrpcStreams and GrpcCall: what callers use
    balancing.py   BalancedStreams: round robin over all addresses of a name
    link.py        one connection on an event loop: socket, timers, backpressure
    connection.py  the protocol: bytes in, bytes out, callbacks; no I/O
    call_table.py  the calls of a connection; stream.py is one of them
    sending.py     request bodies under the peer's flow control
    messages.py    reads messages from DATA payloads
    requests.py    the headers of a call
    responses.py   reads the status of a call from the headers and trailers of its answer
    frames.py, header_codec.py, settings.py, statuses.py, keepalive.py, backoff.py, targets.py, options.py, errors.py

Every module but client.py, balancing.py and link.py is synchronous and is given the time as an argument.
"""
