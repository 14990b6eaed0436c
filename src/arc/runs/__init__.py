"""A run's life: folder, lease, checkpoints, start, resume, fork, history, collection."""
