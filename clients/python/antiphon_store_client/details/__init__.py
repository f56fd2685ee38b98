"""Messages of `google.rpc` that errors carry."""
