"""Clients of a Responses server for the command line: a conversation, a tree, a load test."""
