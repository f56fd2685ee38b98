"""The ResponseStore service: history, leases and turns on a backend of choice, and a gRPC client to reach it.

`antiphon_store.client` needs the base install only and is safe to import anywhere.
"""
