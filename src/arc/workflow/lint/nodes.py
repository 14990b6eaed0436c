"""Rules about single nodes: what their type needs in order to do anything, and attributes that cannot work."""

from __future__ import annotations

import re
from collections.abc import Iterator

from arc.workflow.lint.structure import close_node
from arc.workflow.lint.view import RETRY_NAMES, Finding, View, flag, pick, text

SCRIPT_NAMES = ("script", "tool_command")
CHILD_NAMES = ("stack.child_workflow", "stack.child_dotfile", "stack.child_dot_source")

_ABSOLUTE_CD = re.compile(r"(?:^|[\n;&|({]|\bthen|\bdo)[ \t]*(cd[ \t]+(?:--[ \t]+)?[\"']?(?:/|~|\$HOME\b|\$\{HOME\}))", re.MULTILINE)


def prompt_on_llm_nodes(view: View) -> Iterator[Finding]:
    """A node that asks a model says what it asks: a prompt, or at least a label of its own."""
    for node in view.of_type("agent", "prompt"):
        label = text(node.attributes, "label")
        if not text(node.attributes, "prompt") and label in ("", node.id):
            yield Finding(
                f"node `{node.id}` asks a model but has neither a prompt nor a label: the model would be asked `{node.id}`",
                node.position,
                hint=f'give it one: `{node.id} [prompt="..."]` or `{node.id} [prompt="@file.md"]`',
            )


def command_without_script(view: View) -> Iterator[Finding]:
    """A command node has a script."""
    for node in view.of_type("command"):
        if not text(node.attributes, *SCRIPT_NAMES):
            attribute = pick(node.attributes, *SCRIPT_NAMES)
            yield Finding(
                f"command node `{node.id}` has no `script`: there is nothing to run",
                attribute.value_position if attribute else node.position,
                hint=f'give it one: `{node.id} [script="..."]`',
            )


def script_on_other_nodes(view: View) -> Iterator[Finding]:
    """A script on a node that is no command is never run."""
    for node in view.syntax.nodes.values():
        attribute = pick(node.attributes, *SCRIPT_NAMES)
        kind = view.types.get(node.id)
        if attribute is not None and kind in (
            "agent",
            "prompt",
            "start",
            "exit",
            "conditional",
            "human",
            "wait",
            "parallel",
            "parallel.fan_in",
        ):
            yield Finding(
                f"`{attribute.name}` of node `{node.id}` is never run: the node is of type `{kind}`",
                attribute.name_position,
                hint="give the node `type=command` (or `shape=parallelogram`)",
            )


def wait_without_duration(view: View) -> Iterator[Finding]:
    """A wait node says for how long."""
    for node in view.of_type("wait"):
        if not text(node.attributes, "duration"):
            yield Finding(
                f"wait node `{node.id}` has no `duration`: it would not wait at all",
                node.position,
                hint=f"for example `{node.id} [duration=30s]`",
            )


def child_missing(view: View) -> Iterator[Finding]:
    """A node that runs a child workflow names it."""
    for node in view.of_type("stack.manager_loop"):
        if not text(node.attributes, *CHILD_NAMES):
            yield Finding(
                f"node `{node.id}` runs a child workflow but names none",
                node.position,
                hint=f'name its file: `{node.id} [stack.child_workflow="child.dot"]`',
            )


def script_absolute_cd(view: View) -> Iterator[Finding]:
    """Scripts stay in the run's own worktree; `cd` to an absolute path leaves it, and what happens there is in no checkpoint."""
    for node in view.of_type("command"):
        attribute = pick(node.attributes, *SCRIPT_NAMES)
        if attribute is None:
            continue
        match = _ABSOLUTE_CD.search(str(attribute.value))
        if match:
            line = str(attribute.value)[match.start(1) :].splitlines()[0][:60]
            yield Finding(
                f"the script of `{node.id}` leaves the run's worktree: `{line}`",
                view.inside(attribute, match.start(1)),
                hint="use a path relative to the worktree; files changed elsewhere are in no checkpoint",
            )


def retry_target_exists(view: View) -> Iterator[Finding]:
    """Retry targets name nodes, and not the start of nowhere."""
    holders = [(None, view.syntax.attributes), *((node.id, node.attributes) for node in view.syntax.nodes.values())]
    for owner, attributes in holders:
        for name in RETRY_NAMES:
            attribute = attributes.get(name)
            if attribute is None or not str(attribute.value).strip() or str(attribute.value) in view.syntax.nodes:
                continue
            if "$" in str(attribute.value):
                continue  # known only when the run's inputs are
            whose = f"`{name}` of node `{owner}`" if owner else f"the graph's `{name}`"
            yield Finding(
                f"{whose} names `{attribute.value}`, which is no node",
                attribute.value_position,
                hint=close_node(view, str(attribute.value)),
            )


def retry_target_returns(view: View) -> Iterator[Finding]:
    """A retry target leads back to the node that is to be retried; otherwise the gate it should mend can never pass."""
    for node in view.syntax.nodes.values():
        for name in RETRY_NAMES:
            attribute = node.attributes.get(name)
            target = str(attribute.value) if attribute is not None else ""
            if attribute is None or target not in view.syntax.nodes or not flag(node.attributes, "goal_gate"):
                continue
            if node.id not in view.reached_from([target], jumps=False):
                yield Finding(
                    f"`{name}` of goal gate `{node.id}` is `{target}`, from where no edge leads back to `{node.id}`",
                    attribute.value_position,
                    hint="choose a node before the gate",
                )


def goal_gate_has_retry(view: View) -> Iterator[Finding]:
    """A goal gate that fails has somewhere to go back to; without that the run fails at the exit."""
    for_all = any(text(view.syntax.attributes, name) for name in RETRY_NAMES)
    for node in view.syntax.nodes.values():
        if flag(node.attributes, "goal_gate") and not for_all and not any(text(node.attributes, name) for name in RETRY_NAMES):
            yield Finding(
                f"goal gate `{node.id}` has no `retry_target`: if it is not met, the run fails at once",
                node.attributes["goal_gate"].value_position,
                hint=f'name the node to go back to: `{node.id} [goal_gate=true, retry_target="..."]`, or one for the whole graph',
            )


def max_visits_zero(view: View) -> Iterator[Finding]:
    """`max_visits=0` does not forbid a node: it takes the limit away."""
    for node in view.syntax.nodes.values():
        attribute = node.attributes.get("max_visits")
        if attribute is not None and text(node.attributes, "max_visits") == "0":
            yield Finding(
                f"`max_visits=0` of node `{node.id}` sets no limit",
                attribute.value_position,
                hint="`max_visits=N` allows N visits; leave it out if no limit is meant",
            )


def model_needed(view: View) -> Iterator[Finding]:
    """Says once that the workflow needs a model to run."""
    asking = [
        node
        for node in view.syntax.nodes.values()
        if view.types.get(node.id) in ("agent", "prompt")
        or (view.types.get(node.id) == "parallel.fan_in" and text(node.attributes, "prompt"))
    ]
    if asking:
        names = ", ".join(f"`{node.id}`" for node in asking[:4]) + (f" and {len(asking) - 4} more" if len(asking) > 4 else "")
        yield Finding(
            f"{len(asking)} node{'s' if len(asking) > 1 else ''} of this workflow {'ask' if len(asking) > 1 else 'asks'} a model: {names}",
            asking[0].position,
            hint="configure one under `[model]` in the run's TOML or in `arc.toml` before the run starts",
        )
