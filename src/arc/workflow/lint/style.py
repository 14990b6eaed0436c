"""Rules about models and the model stylesheet.

arc has no catalogue of models and wants none: a backend may know names that nobody else has heard of. What can be said without one is
that a name is almost one of a well-known family, or that it belongs to another provider than the one named beside it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rapidfuzz import fuzz, process

from arc.workflow.language.errors import WorkflowError
from arc.workflow.language.stylesheet import parse_stylesheet
from arc.workflow.lint.view import Finding, View, pick, text
from arc.workflow.model import NODE_TYPES
from arc.workflow.values import Position

FAMILIES: dict[str, tuple[str, ...]] = {
    "anthropic": ("claude",),
    "openai": ("gpt", "codex", "o1", "o3", "o4"),
    "google": ("gemini", "gemma"),
    "mistral": ("mistral", "codestral", "devstral", "magistral", "ministral"),
    "deepseek": ("deepseek",),
    "xai": ("grok",),
    "qwen": ("qwen",),
    "moonshot": ("kimi",),
    "zai": ("glm",),
    "meta": ("llama",),
}
"""Provider -> how the names of its own models begin. Only used to find misspellings and contradictions."""

_ALIASES = {
    "gemini": "google",
    "vertex": "google",
    "x-ai": "xai",
    "x.ai": "xai",
    "kimi": "moonshot",
    "moonshotai": "moonshot",
    "alibaba": "qwen",
}
_MAKERS_ONLY = frozenset({"anthropic", "openai", "google", "xai", "moonshot"})
"""Providers that serve only their own models; the others' names are served by many."""

MODEL_NAMES = ("llm_model", "model")
PROVIDER_NAMES = ("llm_provider", "provider")
_CLOSE = 80.0
_BLOCK = re.compile(r"(?P<selector>[^{};]+?)\s*\{(?P<body>[^}]*)\}")
_DECLARATION = re.compile(r"(?P<name>[\w.-]+)\s*:\s*(?P<quote>[\"']?)(?P<value>[^;\"'\n}]+?)(?P=quote)\s*(?:;|$)", re.MULTILINE)


@dataclass(frozen=True)
class _Named:
    """A model and a provider named together, "" where not named, and where the two names stand."""

    model: str
    provider: str
    model_at: Position
    provider_at: Position


def stylesheet_model_known(view: View) -> Iterator[Finding]:
    """Models and providers are spelt as they are known, and fit each other."""
    for named in _all_named(view):
        yield from _about(named)


def stylesheet_selector_used(view: View) -> Iterator[Finding]:
    """Every selector of the stylesheet matches a node. A type that is spelt right may match none: sheets are shared between workflows."""
    sheet = view.syntax.attributes.get("model_stylesheet")
    if sheet is None:
        return
    try:
        rules = parse_stylesheet(str(sheet.value), sheet.value_position, view.locator(sheet)).rules
    except WorkflowError:
        return  # stylesheet_syntax reports it
    classes = sorted({name for node in view.syntax.nodes.values() for name in node.classes})
    types = sorted({*NODE_TYPES, *view.types.values()})
    for selector in (each for rule in rules for each in rule.selectors):
        if selector.kind == "id" and selector.name not in view.syntax.nodes:
            yield Finding(
                f"selector `#{selector.name}` matches no node", selector.position, _nearest(selector.name, list(view.syntax.nodes), "#")
            )
        elif selector.kind == "class" and selector.name not in classes:
            yield Finding(f"selector `.{selector.name}` matches no node", selector.position, _nearest(selector.name, classes, "."))
        elif selector.kind == "type" and selector.name not in types:
            yield Finding(f"selector `{selector.name}` is no node type", selector.position, _nearest(selector.name, types, ""))


def _all_named(view: View) -> Iterator[_Named]:
    default = _Named(
        text(view.syntax.attributes, "default_model"),
        text(view.syntax.attributes, "default_provider"),
        _at(view, "default_model"),
        _at(view, "default_provider"),
    )
    yield default
    for node in view.syntax.nodes.values():
        model, provider = pick(node.attributes, *MODEL_NAMES), pick(node.attributes, *PROVIDER_NAMES)
        yield _Named(
            text(node.attributes, *MODEL_NAMES),
            text(node.attributes, *PROVIDER_NAMES),
            model.value_position if model else node.position,
            provider.value_position if provider else node.position,
        )
    sheet = view.syntax.attributes.get("model_stylesheet")
    if sheet is None:
        return
    for block in _BLOCK.finditer(_without_comments(str(sheet.value))):
        found: dict[str, tuple[str, int]] = {}
        for declaration in _DECLARATION.finditer(block["body"]):
            offset = block.start("body") + declaration.start("value")
            found[declaration["name"]] = (declaration["value"].strip(), offset)
        model_word, model_offset = next((found[name] for name in MODEL_NAMES if name in found), ("", 0))
        provider_word, provider_offset = next((found[name] for name in PROVIDER_NAMES if name in found), ("", 0))
        yield _Named(model_word, provider_word, view.inside(sheet, model_offset), view.inside(sheet, provider_offset))


def _about(named: _Named) -> Iterator[Finding]:
    provider = named.provider.lower()
    provider = _ALIASES.get(provider, provider)
    if provider and provider not in FAMILIES:
        near = process.extract(provider, [*FAMILIES, *_ALIASES], limit=1, score_cutoff=_CLOSE)
        if near:
            yield Finding(f"provider `{named.provider}` is not known", named.provider_at, f"did you mean `{near[0][0]}`?")
    model = named.model.lower().rsplit("/", 1)[-1]
    word = re.match(r"[a-z]+\d?", model)
    if not model or word is None:
        return
    owner = next((maker for maker, starts in FAMILIES.items() if model.startswith(starts)), None)
    if owner is None:
        longer = [start for starts in FAMILIES.values() for start in starts if len(start) >= 4]
        near = process.extract(word[0], longer, scorer=fuzz.ratio, limit=1, score_cutoff=_CLOSE)
        if near:
            guess = named.model.lower().replace(word[0], near[0][0], 1)
            yield Finding(f"model `{named.model}` is not known", named.model_at, f"did you mean `{guess}`?")
    elif provider in _MAKERS_ONLY and owner != provider and "/" not in named.model:
        yield Finding(
            f"model `{named.model}` is not made by provider `{named.provider}`",
            named.model_at,
            f"its provider is `{owner}`",
        )


def _at(view: View, name: str) -> Position:
    attribute = view.syntax.attributes.get(name)
    return attribute.value_position if attribute else view.syntax.position


def _nearest(word: str, known: list[str], sign: str) -> str:
    near = process.extract(word, known, limit=1, score_cutoff=60.0)
    return f"did you mean `{sign}{near[0][0]}`?" if near else ""


def _without_comments(sheet: str) -> str:
    """The sheet with comments blanked out, so that offsets stay."""
    return re.sub(r"/\*.*?\*/", lambda match: " " * len(match[0]), sheet, flags=re.DOTALL)
