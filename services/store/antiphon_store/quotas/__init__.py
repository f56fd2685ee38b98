"""Quotas: what tenants use up of what they may, counted for all edges together."""
