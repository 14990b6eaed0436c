"""`python -m arc`: the same as the `arc` command."""

from arc.cli.main import main

main()
