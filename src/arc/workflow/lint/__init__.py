"""Lint rules of the workflow language: one small function per rule, all listed in `arc.workflow.lint.rules.RULES`."""

from __future__ import annotations

from arc.workflow.lint.rules import RULES, Rule, lint

__all__ = ["RULES", "Rule", "lint"]
