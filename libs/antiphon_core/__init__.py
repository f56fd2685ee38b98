"""Types, limits, errors and protocols that Antiphon's services share. The package imports none of the services."""
