"""arc: reversible, resumable, forkable work for coding agents."""

__version__ = "0.1.0"
