"""Background responses: queued, run by workers, followed from any edge."""
