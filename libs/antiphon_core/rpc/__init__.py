"""gRPC between services: one table of methods drives servers, clients, health, reflection and tests.

Messages are betterproto2 classes, the transport is grpc.aio; generated stubs are not used
(docs/adr/0001-betterproto2-on-grpc-aio.md).
"""
