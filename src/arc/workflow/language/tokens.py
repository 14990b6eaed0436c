"""The small languages inside attributes (conditions, stylesheets): a row of tokens, a place in it, errors with positions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from arc.workflow.language.errors import WorkflowError, problem
from arc.workflow.language.text import Locator


@dataclass(frozen=True)
class Token:
    """`kind` is sign, quoted, word or end (a language may have more); `offset` counts characters of the attribute's value."""

    kind: str
    text: str
    offset: int


class TokenParser(ABC):
    """Base of the recursive-descent parsers. `expand(value, offset)` replaces variables in values."""

    error_rule: str
    """Rule id of this language's errors."""
    language: str
    """What is bad, in messages: `condition`, `stylesheet`."""

    def __init__(self, text: str, locator: Locator, expand: Callable[[str, int], str]) -> None:
        self.text = text
        self.locator = locator
        self.expand = expand
        self.tokens = list(self.tokenize())
        self.index = 0

    @abstractmethod
    def tokenize(self) -> Iterator[Token]:
        """All tokens; the last one is `end`."""

    @property
    def token(self) -> Token:
        """The token that is next."""
        return self.tokens[self.index]

    def accept(self, sign: str) -> bool:
        """Step over this sign if it is next."""
        if self.token.kind == "sign" and self.token.text == sign:
            self.index += 1
            return True
        return False

    def error(self, message: str, offset: int, *, expected: tuple[str, ...] = (), hint: str = "") -> WorkflowError:
        """An error of this language at an offset of the value."""
        position = self.locator.at(offset)
        message = f"bad {self.language}: {message}"
        return problem(self.error_rule, message, position, self.locator.line(position), expected=expected, hint=hint)

    def unexpected(self, *expected: str, hint: str = "") -> WorkflowError:
        """The next token cannot stand here."""
        what = "it ends too early" if self.token.kind == "end" else f"unexpected `{self.token.text}`"
        return self.error(what, self.token.offset, expected=expected, hint=hint)
