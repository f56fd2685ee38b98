"""The command line, and the composition of targets into processes. Only this package imports all services."""
