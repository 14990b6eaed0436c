"""Turns lark's errors into sentences in the words of the language: what stands there, what was expected, what to do."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection

from lark import Token
from lark.exceptions import UnexpectedCharacters, UnexpectedInput, UnexpectedToken

from arc.workflow.language.errors import WorkflowError, problem
from arc.workflow.language.text import SourceText

_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"|//[^\n]*|/\*.*?\*/', re.DOTALL)


def explain(error: UnexpectedInput, text: SourceText) -> WorkflowError:
    """The `syntax` error for what the parser met."""
    if isinstance(error, UnexpectedCharacters):
        return _bad_characters(error.pos_in_stream or 0, text)
    assert isinstance(error, UnexpectedToken)
    token: Token = error.token
    if token.type == "$END":
        return _end_of_file(error, text)
    accepted = error.accepts or error.expected
    offset = token.start_pos or 0
    position = text.at(offset)
    message, hint = _message(token, offset, text.text, accepted)
    expected = () if hint and message.startswith("only") else _expected(accepted)
    return problem("syntax", message, position, text.line(position), expected=expected, hint=hint or _open_string(text.text, offset))


def _bad_characters(offset: int, text: SourceText) -> WorkflowError:
    rest = text.text[offset : offset + 2]
    char = rest[:1]
    position = text.at(offset)
    message, hint = f"unexpected character `{char}`", ""
    if char == '"':
        message, hint = (
            "this string is never closed",
            'a string ends at the next `"` that has no `\\` before it' + _earlier(text.text, offset),
        )
    elif rest == "/*":
        message, hint = "this comment is never closed", "end it with `*/`"
    elif rest.startswith("--"):
        message, hint = "undirected edge `--`", "edges are written `->`"
    elif char == "<":
        message, hint = "`<` cannot start a value", "HTML labels are not supported; write the text in double quotes"
    elif char == "'":
        message, hint = "single quotes are not supported here", 'strings are written in double quotes: "..."'
    elif not char.isprintable() or (char.isspace() and char != " ") or ord(char) > 126:
        name = unicodedata.name(char, "control character")
        message = f"unexpected character U+{ord(char):04X} ({name.lower()})"
        hint = "text outside ASCII must stand in double quotes"
    else:
        hint = _open_string(text.text, offset) or f"a value with `{char}` must stand in double quotes"
    return problem("syntax", message, position, text.line(position), hint=hint or _open_string(text.text, offset))


def _end_of_file(error: UnexpectedToken, text: SourceText) -> WorkflowError:
    accepted = error.accepts or error.expected
    end = len(text.text.rstrip())
    position = text.at(end)
    if "DIGRAPH" in accepted and "WORD" not in accepted:
        return problem("syntax", "no workflow here", position, text.line(position), expected=("`digraph NAME { ... }`",))
    expected = _expected(accepted)
    return problem("syntax", "the file ends too early", position, text.line(position), expected=expected, hint=_open_string(text.text, end))


def _message(token: Token, offset: int, text: str, accepted: Collection[str]) -> tuple[str, str]:
    """What is wrong with a token, and a hint where the mistake is a known one."""
    word = str(token)
    at_start = "DIGRAPH" in accepted and "WORD" not in accepted
    if at_start and word.lower() == "digraph":
        return f"unexpected `{word}`", "the keyword is written in lower case: `digraph`"
    if at_start and word.lower() == "graph":
        return "only directed graphs are workflows", "write `digraph` instead of `graph`"
    if at_start and word.lower() == "strict":
        return "only plain digraphs are workflows", "remove `strict`"
    if not accepted or set(accepted) == {"$END"}:
        return "unexpected text after the end of the workflow", "a file holds one digraph; is there a `}` too many?"
    if "EQUAL" in accepted and "RSQB" not in accepted and "_ARROW" not in accepted:
        return f"{_shown(token)} where `=` should be", "every attribute is written `name = value`"
    if token.type == "STRING" and "\n" in word:
        return "unexpected string", ""
    if token.type == "EQUAL" and text[:offset].rstrip().endswith("]"):
        return "unexpected `=`", ""
    return f"unexpected {_shown(token)}", ""


def _shown(token: Token) -> str:
    word = str(token).split("\n", 1)[0]
    return f"`{word if len(word) <= 40 else word[:39] + '…'}`"


def _expected(accepted: Collection[str]) -> tuple[str, ...]:
    """The accepted terminals in words; which word a name stands for follows from its company."""
    words: list[str] = []
    if "WORD" in accepted or "STRING" in accepted:
        if "DIGRAPH" in accepted:
            words.append("an attribute name" if "RSQB" in accepted else "a value (word, number, duration, or string in double quotes)")
        elif "RBRACE" in accepted:
            words.append("a statement (node, edge, attribute or subgraph)")
        elif "SUBGRAPH" in accepted:
            words.append("a node id")
        elif "WORD" in accepted:
            words.append("a name")
        else:
            words.append("a string in double quotes")
    signs = {"DIGRAPH": "`digraph NAME { ... }`"} if "WORD" not in accepted else {}
    signs |= {"EQUAL": "`=`", "_ARROW": "`->`", "LSQB": "`[`", "RSQB": "`]`", "LBRACE": "`{`", "RBRACE": "`}`"}
    inside_list = "RSQB" in accepted
    if inside_list and "COMMA" in accepted:
        words.append("`,`")
    for terminal, sign in signs.items():
        starts_statement = terminal == "LBRACE" and "RBRACE" in accepted
        if terminal in accepted and not starts_statement:
            words.append(sign)
    if "$END" in accepted:
        words.append("the end of the file")
    return tuple(words)


def _open_string(text: str, offset: int) -> str:
    """A hint if a string before the error spans lines: a forgotten quote makes the next string's opening quote close it."""
    found = ""
    for match in _STRING.finditer(text, 0, offset):
        if match[0][0] == '"' and "\n" in match[0]:
            line = text.count("\n", 0, match.start()) + 1
            last = text.count("\n", 0, match.end()) + 1
            found = f'the string that begins in line {line} ends in line {last}; is a `"` missing in line {line}?'
    return found


def _earlier(text: str, offset: int) -> str:
    hint = _open_string(text, offset)
    return f"; {hint}" if hint else ""
