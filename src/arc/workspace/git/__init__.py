"""The workspace of runs: a Git worktree on its own branch, captured by plumbing only."""
