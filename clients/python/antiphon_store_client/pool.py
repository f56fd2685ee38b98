"""The descriptors of this client, apart from protobuf's default pool.

The default pool refuses two versions of one message. A process may import this client beside Antiphon's own packages,
or beside another copy of `google.rpc`.
"""

from __future__ import annotations

from google.protobuf import any_pb2, descriptor_pool, duration_pb2

POOL = descriptor_pool.DescriptorPool()
for _file in (any_pb2, duration_pb2):
    POOL.AddSerializedFile(_file.DESCRIPTOR.serialized_pb)
