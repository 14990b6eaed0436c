"""What of a run is stored, with every secret replaced: configuration, records and JSON values; and the way back on a resume.

The process keeps the real values in memory; only what is written passes through here. Lone surrogates (text that was not UTF-8) become
U+FFFD, since no JSON document can hold them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import msgspec

from arc.base.json import JsonValue
from arc.base.redact import MINIMUM_LENGTH, Redactor, names_a_secret
from arc.runs.config import RunConfig
from arc.runs.errors import MissingVariableError
from arc.workflow.language.variables import input_variable

T = TypeVar("T")

MARK = "«redacted:"
"""How a redacted text begins."""


def storable(value: JsonValue, redactor: Redactor) -> JsonValue:
    """A JSON value with every known secret replaced."""
    return _whole(redactor.json(value))


def redacted(value: T, redactor: Redactor) -> T:
    """A dataclass of plain fields with every known secret in its texts replaced."""
    return msgspec.convert(storable(msgspec.to_builtins(value), redactor), type(value))


def stored_config(config: RunConfig, redactor: Redactor) -> RunConfig:
    """The configuration as `run.json` and `manifest.json` hold it. Variables of secret names go whatever their length, inputs from
    `MINIMUM_LENGTH` on (`-i key=B` is a choice rather than a secret)."""
    variables, inputs = _without_secrets(config.environment.variables), _without_secrets(config.inputs, MINIMUM_LENGTH)
    return redacted(replace(config, inputs=inputs, environment=replace(config.environment, variables=variables)), redactor)


def _without_secrets(values: Mapping[str, str], shortest: int = 0) -> dict[str, str]:
    return {name: f"{MARK}{name}»" if names_a_secret(name) and len(value) >= shortest else value for name, value in values.items()}


def live_config(stored: RunConfig, environ: Mapping[str, str], run_id: str) -> RunConfig:
    """The stored configuration with its secrets taken from the environment of now: variables by their name, inputs as `ARC_INPUT_NAME`.

    Raises:
        MissingVariableError: one of them is not set there.
    """
    variables = {name: _live(value, name, name, environ, run_id) for name, value in stored.environment.variables.items()}
    inputs = {name: _live(value, name, input_variable(name), environ, run_id) for name, value in stored.inputs.items()}
    return replace(stored, inputs=inputs, environment=replace(stored.environment, variables=variables))


def _live(value: str, name: str, variable: str, environ: Mapping[str, str], run_id: str) -> str:
    if MARK not in value:
        return value
    if variable not in environ:
        raise MissingVariableError(
            f"run {run_id} was configured with the secret `{name}`, which is stored nowhere; set it in the environment to resume",
            hints=(f"export {variable}=...",),
        )
    return environ[variable]


def _whole(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {str(_whole(key)): _whole(item) for key, item in value.items()}
    return value
