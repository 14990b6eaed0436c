"""The engine: walks a workflow, routes, retries, forks, joins, and asks for a checkpoint after every node."""
