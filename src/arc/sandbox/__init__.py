"""Where commands run: one small protocol, and its kinds (local; Docker and Daytona join later)."""
