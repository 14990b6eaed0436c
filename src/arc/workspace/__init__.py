"""The workspace protocol, the plan, and the kinds of workspace (git now; journal and disk join later)."""
