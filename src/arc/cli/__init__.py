"""The command line: parse, one call into a room, render."""
