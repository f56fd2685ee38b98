"""A fleet of model servers with KV caches, in virtual time: what a choice of endpoints is worth, without a GPU."""
