"""A descriptor pool of this client's own.

Protobuf's default pool rejects a second version of a message, but a process may import Antiphon's own packages, or
another copy of `google.rpc`, besides this client.
"""

from __future__ import annotations

from google.protobuf import any_pb2, descriptor_pool, duration_pb2

POOL = descriptor_pool.DescriptorPool()
for _file in (any_pb2, duration_pb2):
    POOL.AddSerializedFile(_file.DESCRIPTOR.serialized_pb)
