"""What each node type does, and the registry of handlers (users add theirs here)."""
