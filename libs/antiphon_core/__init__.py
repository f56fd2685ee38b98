"""The vocabulary that Antiphon's services share. It knows no service and imports none."""
