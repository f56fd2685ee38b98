"""gRPC between services: one table of methods drives servers, clients, health, reflection and tests.

Messages are betterproto2 classes, their bytes are protobuf's (docs/adr/0055-hot-messages-as-protobuf.md), the transport
is grpc.aio; generated stubs are not used (docs/adr/0001-betterproto2-on-grpc-aio.md).
"""
