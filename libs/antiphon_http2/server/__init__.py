"""The gRPC server.

    server.py          GrpcServer: listens, and drains
    call.py            ServerCall: what a handler uses
    link.py            one connection on an event loop: socket, timers
    read_turns.py      shares the event loop among connections that have much to handle
    tls.py             TLS between two buffers
    connection.py      the protocol: bytes in, events; calls, bytes out; no I/O
    events.py          what happens to its calls
    stream.py          one call of a connection, with the messages that wait for its handler
    preface.py         how a client begins
    requests.py        reads the headers of a call
    strangers.py       limits the calls of callers that are not authenticated
    request_reader.py  reads the messages of a call, when they are asked for
    answers.py         the headers and trailers of an answer
    options.py

Every module but server.py, call.py, link.py and read_turns.py is synchronous and is given the time as an argument.
"""
