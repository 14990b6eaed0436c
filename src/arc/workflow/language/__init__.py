"""The workflow language: from DOT text to a typed workflow."""
