"""The paths of HTTP, and the form of what is asked and answered there."""
