"""The client of gRPC calls.

    client.py      GrpcStreams and GrpcCall: what callers use
    unary.py       unary calls
    balancing.py   BalancedStreams: round robin over all addresses of a name
    health_watch.py  whether the server of an address says that it serves
    link.py        one connection on an event loop: socket, timers, backpressure
    connection.py  the protocol: bytes in, bytes out, callbacks; no I/O
    call_table.py  the calls of a connection; stream.py is one of them
    requests.py    the headers of a call
    responses.py   reads the status of a call from the headers and trailers of its answer
    backoff.py, targets.py, options.py

Every module but client.py, unary.py, balancing.py, health_watch.py and link.py is synchronous and is given the time as
an argument.
"""
