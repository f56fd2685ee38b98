"""Who may ask, for which tenant, how much, and how slowly they may read."""
