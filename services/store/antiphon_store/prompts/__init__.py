"""Prompts: templates of a tenant, in versions that never change."""
