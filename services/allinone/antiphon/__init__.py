"""The command line and the composition of targets. Not a service: the only place that knows all of them."""
