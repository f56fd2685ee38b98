"""Messages of `antiphon.store.v1`."""

from antiphon_store_client.v1.conversations_pb2 import *
from antiphon_store_client.v1.errors_pb2 import *
from antiphon_store_client.v1.resources_pb2 import *
from antiphon_store_client.v1.responses_pb2 import *
from antiphon_store_client.v1.sessions_pb2 import *
from antiphon_store_client.v1.trees_pb2 import *
