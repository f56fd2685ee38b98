"""Lineage: forks, trees, lists of responses, and what is found by id in any of them."""
