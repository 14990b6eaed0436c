"""Workflows as pictures: styled DOT, rendering, the terminal's outline."""
