"""The store, the translator and the telemetry as parts of a process, one module each, so that a process imports only
those that it runs. The edge and its worker are parts without a module here."""
