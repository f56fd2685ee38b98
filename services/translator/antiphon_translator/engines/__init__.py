"""Engines: one module per way to run a model. They alone talk to the network."""
