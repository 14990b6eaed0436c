"""The workflow language (DOT) and the engine that walks it."""
