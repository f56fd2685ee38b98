"""Rate limits and stream slots of each tenant, counted by one edge or in the store."""
