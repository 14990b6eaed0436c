"""Agents: the backend protocol and its kinds (an external program, a script; the built-in model loop joins later)."""
