"""Where services meet: what each offers to the others, as protocols over plain values.

A port is implemented by the service itself and by a gRPC client of it. Both pass the same suite (tests/contract), so a
caller cannot tell which one it holds.
"""
