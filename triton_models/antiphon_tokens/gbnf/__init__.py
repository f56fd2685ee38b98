"""Guided decoding on llama.cpp: guides become grammars (GBNF), each of which is tried in a process of its own first."""
