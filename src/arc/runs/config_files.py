"""Reads run configurations (a run's TOML) and project defaults (`arc.toml`), and merges them with what the command line says.

Every mistake is an error with file, line and column: an unknown key (with close matches), a wrong type, a bad duration. The keys are
documented in docs/configuration.md, which a test compares with `KEYS`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeVar, cast

from rapidfuzz import process

from arc.runs.config import (
    CONFIG_SCHEMA,
    CheckpointConfig,
    EnvironmentConfig,
    HookConfig,
    ModelConfig,
    RunConfig,
    SandboxConfig,
    SetupConfig,
)
from arc.runs.errors import ConfigError, SourceError
from arc.runs.toml_places import KeyPath, Place, locate
from arc.runs.world import StartRequest

PROJECT_FILE = "arc.toml"

T = TypeVar("T")

Kind = Literal["string", "integer", "boolean", "duration", "strings", "command", "map", "table", "tables"]


@dataclass(frozen=True)
class Key:
    """One key: its kind, the words it may hold (empty = any), whether it must be there, and where it is allowed."""

    kind: Kind
    choices: tuple[str, ...] = ()
    required: bool = False
    only_in_runs: bool = False


KEYS: Mapping[str, Key] = {
    "schema": Key("integer"),
    "graph": Key("string", only_in_runs=True),
    "directory": Key("string", only_in_runs=True),
    "goal": Key("string"),
    "auto_approve": Key("boolean"),
    "inputs": Key("map"),
    "labels": Key("map"),
    "model": Key("table"),
    "model.backend": Key("string", choices=("cli", "scripted")),
    "model.model": Key("string"),
    "model.provider": Key("string"),
    "model.reasoning_effort": Key("string", choices=("low", "medium", "high")),
    "model.command": Key("command"),
    "model.script": Key("string"),
    "model.reply": Key("string", choices=("text", "json")),
    "setup": Key("table"),
    "setup.commands": Key("strings"),
    "setup.timeout": Key("duration"),
    "environment": Key("map"),
    "environment.pass": Key("strings"),
    "checkpoint": Key("table"),
    "checkpoint.exclude_globs": Key("strings"),
    "sandbox": Key("table"),
    "sandbox.provider": Key("string", choices=("local",)),
    "hooks": Key("tables"),
    "hooks.event": Key("string", choices=("before_node", "after_node"), required=True),
    "hooks.command": Key("string", required=True),
    "hooks.nodes": Key("strings"),
    "hooks.timeout": Key("duration"),
    "handlers": Key("map"),
}
"""Every key, dotted from the top; `map` takes any key with a text."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SYNTAX_PLACE = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


@dataclass(frozen=True)
class Layer:
    """What one file says; `values` by dotted key, only keys that are there. Paths in it count from `directory`."""

    file: Path
    values: Mapping[str, object] = field(default_factory=dict)

    @property
    def directory(self) -> Path:
        return self.file.parent

    def text(self, key: str) -> str | None:
        value = self.values.get(key)
        return value if isinstance(value, str) else None

    def texts(self, key: str) -> tuple[str, ...] | None:
        return cast("tuple[str, ...] | None", self.values.get(key))

    def mapping(self, key: str) -> Mapping[str, str]:
        return cast("Mapping[str, str]", self.values.get(key, {}))

    def number(self, key: str) -> int | None:
        value = self.values.get(key)
        return value if isinstance(value, int) else None


@dataclass(frozen=True)
class Sources:
    """What a start is made of: the merged configuration, the workflow file, and where to start."""

    config: RunConfig
    graph: Path
    directory: Path
    files: tuple[Path, ...]


def duration_ms(text: str) -> int | None:
    """`250ms`, `1.5s`, `15m`, `2h`, `1d` in milliseconds; None if it is not a duration."""
    match = _DURATION.fullmatch(text.strip())
    return None if match is None else round(float(match[1]) * _UNITS[match[2]])


def read_layer(file: Path, *, project: bool) -> Layer:
    """Read and check one file. `project` = it is an `arc.toml`, where `graph` and `directory` mean nothing.

    Raises:
        ConfigError: unreadable, not TOML, an unknown key, a wrong type; with file:line:column.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"`{file}` cannot be read: {error.strerror}") from error
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        raise ConfigError(f"{file}:{line}:{column}: the file is not UTF-8") from error
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(_syntax_message(file, text, str(error))) from error
    return _Reader(file, text, project).layer(document)


def _syntax_message(file: Path, text: str, message: str) -> str:
    match = _SYNTAX_PLACE.search(message)
    lines = text.splitlines() or [""]
    line, column = (int(match[1]), int(match[2])) if match and match[1] else (len(lines), len(lines[-1]) + 1)
    return f"{file}:{line}:{column}: {_SYNTAX_PLACE.sub('', message)}"


class _Reader:
    """Checks one parsed document against `KEYS`; every error names the place."""

    def __init__(self, file: Path, text: str, project: bool) -> None:
        self.file = file
        self.lines = text.splitlines()
        self.places = locate(text)
        self.project = project
        self.values: dict[str, object] = {}

    def layer(self, document: Mapping[str, object]) -> Layer:
        self._table(document, "", ())
        schema = self.values.get("schema", CONFIG_SCHEMA)
        if schema != CONFIG_SCHEMA:
            raise self._error(("schema",), f"schema {schema} is not known; this arc reads schema {CONFIG_SCHEMA}", value=True)
        return Layer(self.file, self.values)

    def _table(self, table: Mapping[str, object], prefix: str, path: KeyPath) -> None:
        for name, value in table.items():
            dotted = f"{prefix}{name}"
            key = KEYS.get(dotted)
            if key is None or "." in name:
                raise self._unknown((*path, name), prefix, name)
            if key.only_in_runs and self.project:
                raise self._error((*path, name), f"`{dotted}` belongs into a run configuration, not into `{PROJECT_FILE}`")
            self.values[dotted] = self._value(value, key, dotted, (*path, name))

    def _value(self, value: object, key: Key, dotted: str, path: KeyPath) -> object:
        if key.kind == "table":
            self._table(self._expect(value, dict, "a table", dotted, path), f"{dotted}.", path)
            return True
        if key.kind == "map":
            return self._map(self._expect(value, dict, "a table", dotted, path), dotted, path)
        if key.kind == "tables":
            return tuple(
                self._hook(self._expect(item, dict, "a table", dotted, (*path, number)), (*path, number))
                for number, item in enumerate(self._expect(value, list, "an array of tables, `[[hooks]]`", dotted, path))
            )
        if key.kind in ("strings", "command"):
            items = self._expect(value, list, "an array of texts", dotted, path)
            return tuple(self._expect(item, str, "a text", dotted, (*path, number)) for number, item in enumerate(items))
        if key.kind == "integer":
            return self._expect(value, int, "an integer", dotted, path)
        if key.kind == "boolean":
            return self._expect(value, bool, "`true` or `false`", dotted, path)
        text = self._expect(value, str, 'a duration such as `"90s"`' if key.kind == "duration" else "a text", dotted, path)
        if key.kind == "duration":
            milliseconds = duration_ms(text)
            if milliseconds is None:
                raise self._error(
                    path, f'`{dotted}` is not a duration: give a number and `ms`, `s`, `m`, `h` or `d`, as in `"90s"`', value=True
                )
            return milliseconds
        if key.choices and text not in key.choices:
            raise self._error(path, f"`{dotted}` must be {_or(key.choices)}, not `{text}`", value=True)
        return text

    def _map(self, table: Mapping[str, object], dotted: str, path: KeyPath) -> dict[str, str]:
        texts: dict[str, str] = {}
        for name, value in table.items():
            special = KEYS.get(f"{dotted}.{name}")
            if special is not None:
                self.values[f"{dotted}.{name}"] = self._value(value, special, f"{dotted}.{name}", (*path, name))
            elif isinstance(value, bool):
                texts[name] = "true" if value else "false"
            elif isinstance(value, int | float):
                texts[name] = str(value)
            else:
                texts[name] = self._expect(value, str, "a text, a number or a truth value", f"{dotted}.{name}", (*path, name))
        return texts

    def _hook(self, table: Mapping[str, object], path: KeyPath) -> HookConfig:
        values: dict[str, object] = {}
        for name, value in table.items():
            key = KEYS.get(f"hooks.{name}")
            if key is None:
                raise self._unknown((*path, name), "hooks.", name)
            values[name] = self._value(value, key, f"hooks.{name}", (*path, name))
        for dotted, key in KEYS.items():
            if dotted.startswith("hooks.") and key.required and dotted.removeprefix("hooks.") not in values:
                raise self._error(path, f"this hook has no `{dotted.removeprefix('hooks.')}`")
        return HookConfig(
            event=cast('Literal["before_node", "after_node"]', values["event"]),
            command=cast(str, values["command"]),
            nodes=cast("tuple[str, ...]", values.get("nodes", ())),
            timeout_ms=cast(int, values.get("timeout", HookConfig.timeout_ms)),
        )

    def _expect(self, value: object, kind: type[T], words: str, dotted: str, path: KeyPath) -> T:
        if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
            return value
        raise self._error(path, f"`{dotted}` must be {words}, not {_kind_of(value)}", value=True)

    def _unknown(self, path: KeyPath, prefix: str, name: str) -> ConfigError:
        known = [key.removeprefix(prefix) for key in KEYS if key.startswith(prefix) and "." not in key.removeprefix(prefix)]
        near = [match[0] for match in process.extract(name, known, limit=3, score_cutoff=60)]
        hint = f"did you mean {_or(near)}?" if near else f"known here: {', '.join(known)}"
        where = f" in `[{prefix.rstrip('.')}]`" if prefix else ""
        return self._error(path, f"unknown key `{name}`{where}", hints=(hint,))

    def _error(self, path: KeyPath, message: str, *, value: bool = False, hints: tuple[str, ...] = ()) -> ConfigError:
        place = self._place(path)
        line, column = (place.value_line, place.value_column) if value else (place.line, place.column)
        source = self.lines[line - 1] if line <= len(self.lines) else ""
        return ConfigError(f"{self.file}:{line}:{column}: {message}", hints=hints, details=(source, " " * (column - 1) + "^"))

    def _place(self, path: KeyPath) -> Place:
        """The place of a path; of something inside a value that has no place of its own, the value's."""
        while path not in self.places:
            path = path[:-1]
        return self.places[path]


def _or(words: Sequence[str]) -> str:
    quoted = [f"`{word}`" for word in words]
    return quoted[0] if len(quoted) == 1 else f"{', '.join(quoted[:-1])} or {quoted[-1]}"


def _kind_of(value: object) -> str:
    names = {bool: "a truth value", int: "an integer", float: "a number", str: "a text", list: "an array", dict: "a table"}
    return names.get(type(value), "a date or time")


def find_project_file(directory: Path, top: Path | None) -> Path | None:
    """The nearest `arc.toml` from `directory` up to `top` (the repository's; None = look only in `directory`)."""
    start = directory.resolve()
    limit = top.resolve() if top else start
    for folder in (start, *start.parents):
        if (folder / PROJECT_FILE).is_file():
            return folder / PROJECT_FILE
        if folder == limit or not folder.is_relative_to(limit):
            return None
    return None


def read_sources(request: StartRequest, top: Path | None) -> Sources:
    """Everything that `arc run start SOURCE` was told, merged: command line over the run's TOML over `arc.toml` over defaults.

    `top` is the top of the repository around `request.directory`. Raises `ConfigError`, `SourceError`.
    """
    source = request.source
    if source.is_dir() or not source.exists():
        what = "is a folder" if source.is_dir() else "does not exist"
        raise SourceError(f"`{source}` {what}; give a workflow (`.dot`) or a run configuration (`.toml`)")
    run = read_layer(source, project=False) if source.suffix == ".toml" else None
    directory = request.directory
    graph = source
    if run is not None:
        named = run.text("graph")
        if named is None:
            raise ConfigError(
                f"`{source}` is a run configuration without `graph`, the path of its workflow", hints=('graph = "workflow.dot"',)
            )
        graph = run.directory / named
        if not graph.is_file():
            raise SourceError(f"`{source}` names the workflow `{named}`, and `{graph}` is not a file")
        chosen = run.text("directory")
        directory = run.directory / chosen if chosen is not None else directory
        if not directory.is_dir():
            raise SourceError(f"`{source}` names the directory `{chosen}`, and `{directory}` is not a folder")
    project_file = find_project_file(directory, top)
    layers = [Layer(source)] if run is None else [run]
    if project_file is not None and not (run is not None and project_file.samefile(source)):
        layers.append(read_layer(project_file, project=True))
    return Sources(
        config=_merge(layers, request, graph),
        graph=graph,
        directory=directory.resolve(),
        files=tuple(layer.file for layer in layers if layer.values),
    )


def _merge(layers: Sequence[Layer], request: StartRequest, graph: Path) -> RunConfig:
    """One configuration; `layers` with the strongest first."""

    def text(key: str) -> str | None:
        return next((value for layer in layers if (value := layer.text(key)) is not None), None)

    def texts(key: str) -> tuple[str, ...]:
        return next((value for layer in layers if (value := layer.texts(key)) is not None), ())

    def number(key: str, default: int) -> int:
        return next((value for layer in layers if (value := layer.number(key)) is not None), default)

    def mapping(key: str, over: Mapping[str, str]) -> dict[str, str]:
        merged: dict[str, str] = {}
        for layer in reversed(layers):
            merged.update(layer.mapping(key))
        return {**merged, **over}

    globs = dict.fromkeys(glob for layer in layers for glob in layer.texts("checkpoint.exclude_globs") or ())
    hooks = tuple(hook for layer in reversed(layers) for hook in cast("tuple[HookConfig, ...]", layer.values.get("hooks", ())))
    return RunConfig(
        schema=CONFIG_SCHEMA,
        graph=str(graph.absolute()),
        goal=request.goal if request.goal is not None else text("goal"),
        inputs=mapping("inputs", request.inputs),
        labels=mapping("labels", request.labels),
        model=_model(layers, request.model),
        setup=SetupConfig(commands=texts("setup.commands"), timeout_ms=number("setup.timeout", SetupConfig.timeout_ms)),
        environment=EnvironmentConfig(variables=mapping("environment", {}), pass_through=texts("environment.pass")),
        checkpoint=CheckpointConfig(exclude_globs=tuple(globs)),
        sandbox=SandboxConfig(),
        hooks=hooks,
        handlers=mapping("handlers", {}),
        auto_approve=request.auto_approve or any(layer.values.get("auto_approve") is True for layer in layers),
    )


def _model(layers: Sequence[Layer], over: ModelConfig) -> ModelConfig:
    """`[model]` of the layers under the command line's. A layer that names a backend brings its own `command` or `script`."""
    model = ModelConfig()
    for layer in reversed(layers):
        script = layer.text("model.script")
        model = _over(
            model,
            ModelConfig(
                backend=layer.text("model.backend"),
                model=layer.text("model.model"),
                provider=layer.text("model.provider"),
                reasoning_effort=layer.text("model.reasoning_effort"),
                command=layer.texts("model.command") or (),
                script=None if script is None else str((layer.directory / script).absolute()),
                reply=cast('Literal["text", "json"] | None', layer.text("model.reply")),
            ),
        )
    model = _over(model, over)
    if model.backend is None and (model.command or model.script):
        model = replace(model, backend="cli" if model.command else "scripted")
    return model


def _over(low: ModelConfig, high: ModelConfig) -> ModelConfig:
    return ModelConfig(
        backend=high.backend or ("cli" if high.command else "scripted" if high.script else low.backend),
        model=high.model or low.model,
        provider=high.provider or low.provider,
        reasoning_effort=high.reasoning_effort or low.reasoning_effort,
        command=high.command or low.command,
        script=high.script or low.script,
        reply=high.reply or low.reply,
    )
