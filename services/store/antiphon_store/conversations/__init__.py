"""Conversations: sessions with metadata, and items added by hand."""
