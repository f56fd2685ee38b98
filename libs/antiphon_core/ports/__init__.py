"""Ports: the interfaces that the services offer to each other, as protocols over plain values.

Each port is implemented by the service itself and by its gRPC client. Both pass the same contract tests
(tests/contract), so a caller can use either.
"""
