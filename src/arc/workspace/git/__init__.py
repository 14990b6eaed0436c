"""The Git kind of workspace: a worktree per run, a private index, commits by plumbing, both refs moved in one transaction."""
