"""gRPC between services: one table of methods drives servers, clients, health, reflection and tests.

Messages are betterproto2 classes, which protobuf serializes (docs/adr/0055-hot-messages-as-protobuf.md). The transport
is grpc.aio, without generated stubs (docs/adr/0001-betterproto2-on-grpc-aio.md).
"""
