"""Accepts or rejects the JSON schemas in requests, and makes guides and checks for answers of them."""
