"""Lint rules of the workflow language: one small function per rule, all listed in `arc.workflow.lint.rules.RULES`."""
