"""Lint rules for workflows: each with an id, a severity and a position."""
