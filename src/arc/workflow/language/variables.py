"""Variables in attribute texts: `$name` and `${name}`, where `name` is `goal` or an input of the run; `$$` is a dollar sign.

A `$` that no name follows stays as it is (`$5`, `a$`). Scripts are never touched: there `$NAME` belongs to the shell, and the goal and the
inputs are environment variables (`ARC_GOAL`, `ARC_INPUT_NAME`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from arc.workflow.language.attributes import did_you_mean
from arc.workflow.language.text import Locator
from arc.workflow.values import Diagnostic

_VARIABLE = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<braced>[A-Za-z_][A-Za-z0-9_.-]*)\}|(?P<open>\{)|(?P<plain>[A-Za-z_][A-Za-z0-9_]*))")

_TEMPLATE = re.compile(r"\{\{-?[ ]*(?:(?P<goal>goal)|inputs\.(?P<input>[A-Za-z_][A-Za-z0-9_]*))[ ]*-?\}\}")


class Variables:
    """The values that texts may use, the names they did use, and where findings go."""

    def __init__(self, values: Mapping[str, str], report: Callable[[Diagnostic], None]) -> None:
        self.values = dict(values)
        self.used: set[str] = set()
        self._report = report

    def expand(self, text: str, locator: Locator) -> str:
        """The text with variables replaced. Reports `undefined_variable` errors at the `$`; the variable then stays as written."""
        if "{{" in text:
            self._report_templates(text, locator)
        if "$" not in text:
            return text

        def replace(match: re.Match[str]) -> str:
            if match["dollar"]:
                return "$"
            name = match["braced"] or match["plain"]
            if name is None:
                self._problem("`${` is not followed by a name and `}`", match, locator, "a dollar sign before `{` is written `$$`")
                return match[0]
            self.used.add(name)
            if name in self.values:
                return self.values[name]
            self._problem(f"undefined variable `{name}`", match, locator, self._remedy(name))
            return match[0]

        return _VARIABLE.sub(replace, text)

    def _report_templates(self, text: str, locator: Locator) -> None:
        """`{{ goal }}` and `{{ inputs.x }}` are variables in relatives of this language; here they would go unnoticed as plain text."""
        for match in _TEMPLATE.finditer(text):
            position, name = locator.at(match.start()), match["goal"] or match["input"]
            hint = f"write `${{{name}}}`"
            message = f"`{match[0]}` is plain text here"
            self._report(Diagnostic("undefined_variable", "warning", message, position, locator.line(position), (), hint))

    def _remedy(self, name: str) -> str:
        if name == "goal":
            return 'give the workflow a `goal="..."`, or the run a goal'
        guess = did_you_mean(name, self.values)
        return guess or f"give the run the input `-i {name}=VALUE`; a dollar sign is written `$$`"

    def _problem(self, message: str, match: re.Match[str], locator: Locator, hint: str) -> None:
        position = locator.at(match.start())
        self._report(Diagnostic("undefined_variable", "error", message, position, locator.line(position), (), hint))


def environment_names(goal: str, inputs: Mapping[str, str]) -> dict[str, str]:
    """The variables that commands get: `ARC_GOAL`, and `ARC_INPUT_<NAME>` (upper case, other characters than letters and digits as `_`)."""
    return {"ARC_GOAL": goal} | {input_variable(name): value for name, value in inputs.items()}


def input_variable(name: str) -> str:
    """The environment variable of an input."""
    return "ARC_INPUT_" + re.sub(r"[^A-Z0-9]", "_", name.upper())


def shell_uses(script: str, names: Iterable[str]) -> list[tuple[str, int]]:
    """Where a script reads `$name` or `${name}` for one of these names without setting it: name and offset of the first use of each."""
    found: dict[str, int] = {}
    known = set(names)
    for match in _VARIABLE.finditer(script):
        name = match["braced"] or match["plain"]
        if name in known and name not in found and not re.search(rf"\b{re.escape(name)}=|\b(?:for|read)\s+{re.escape(name)}\b", script):
            found[name] = match.start()
    return list(found.items())
