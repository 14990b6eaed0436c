"""Which handler serves which node type: the built-in ones, and those of users.

A user's handler is an object with `async def run(call: NodeCall) -> Outcome`, an `async def (call) -> Outcome`, or a plain
`def (call) -> Outcome`, which is run in a thread. It is named in the configuration (`[handlers]`, `type = "module:attribute"`) or
installed as an entry point of the group `arc.handlers`; see docs/handlers.md.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
import importlib.util
import inspect
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable, Mapping
from concurrent.futures import CancelledError as FutureCancelledError
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias, cast

from arc.workflow.engine.doors import Handler, NodeCall
from arc.workflow.failures import HandlerError
from arc.workflow.handlers.agent import AgentHandler
from arc.workflow.handlers.command import CommandHandler
from arc.workflow.handlers.errors import HandlerLoadError, UnknownTypeError
from arc.workflow.handlers.human import HumanHandler
from arc.workflow.handlers.simple import PassHandler, WaitHandler
from arc.workflow.model import NODE_TYPES
from arc.workflow.outcome import Outcome

ENTRY_POINT_GROUP = "arc.handlers"
_MISLEADING = (KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, FutureCancelledError, StopIteration, StopAsyncIteration)
"""Raised in a plain function they mean nothing to the run (no signal and no cancellation comes to a thread), but a future or the event
loop would take them for something else."""

HandlerFunction: TypeAlias = Callable[[NodeCall], Outcome] | Callable[[NodeCall], Awaitable[Outcome]]


class FunctionHandler:
    """A function as a handler: a coroutine function is awaited, any other is run in a thread."""

    def __init__(self, function: HandlerFunction, name: str) -> None:
        self._function = function
        self._name = name
        self._is_async = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004

    async def run(self, call: NodeCall) -> Outcome:
        """Call it.

        Raises:
            HandlerError: it returned something that is not an Outcome.
        """
        if self._is_async:
            outcome: object = await cast("Callable[[NodeCall], Awaitable[Outcome]]", self._function)(call)
        else:
            outcome = await self._in_thread(cast("Callable[[NodeCall], Outcome]", self._function), call)
        if not isinstance(outcome, Outcome):
            raise HandlerError(f"the handler `{self._name}` returned {type(outcome).__name__}, not an Outcome", failure_class="structural")
        return outcome

    async def _in_thread(self, function: Callable[[NodeCall], object], call: NodeCall) -> object:
        """Run it in a thread of its own (many slow handlers must not use up the pool in which commands are started and ended) that nobody
        waits for once its time is up, not even the end of the process: a thread cannot be ended from outside."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[object] = loop.create_future()

        def settle(result: object, error: Exception | None) -> None:
            if done.done():
                return
            if error is None:
                done.set_result(result)
            else:
                done.set_exception(error)

        def work() -> None:
            result, error = self._result(function, call)
            with suppress(RuntimeError):  # the loop has ended meanwhile: nobody waits any more
                loop.call_soon_threadsafe(settle, result, error)

        threading.Thread(target=work, name=f"handler-{self._name}", daemon=True).start()
        return await done

    def _result(self, function: Callable[[NodeCall], object], call: NodeCall) -> tuple[object, Exception | None]:
        try:
            return function(call), None
        except SystemExit as error:
            return None, self._error(f"called sys.exit({error.code!r})", error)
        except _MISLEADING as error:
            return None, self._error(f"raised {type(error).__name__}", error)
        except Exception as error:  # noqa: BLE001 - carried to the node runner, which turns everything into an outcome
            return None, error

    def _error(self, what: str, cause: BaseException) -> HandlerError:
        error = HandlerError(f"the handler `{self._name}` {what}", failure_class="structural")
        error.__cause__ = cause
        return error


class HandlerRegistry:
    """Handlers by node type. Made per run; not shared between runs."""

    def __init__(self, handlers: Mapping[str, Handler] | None = None) -> None:
        self._handlers: dict[str, Handler] = dict(handlers or {})

    def get(self, type: str) -> Handler:
        """The handler of a node type.

        Raises:
            UnknownTypeError: nobody registered one.
        """
        try:
            return self._handlers[type]
        except KeyError:
            raise UnknownTypeError(
                f"no handler is registered for the node type `{type}`",
                hints=(f'add one to the configuration: [handlers] {type} = "module:attribute"',),
            ) from None

    def register(self, type: str, handler: Handler | HandlerFunction, *, replace: bool = False) -> None:
        """Serve a node type with a handler object or a function.

        Raises:
            HandlerLoadError: the type is served already (or is one of the engine's own) and `replace` is False; or it is no handler.
        """
        if not replace and (type in self._handlers or type in NODE_TYPES):
            raise HandlerLoadError(f"the node type `{type}` has a handler already", hints=("choose another type name",))
        self._handlers[type] = as_handler(handler, type)

    def types(self) -> tuple[str, ...]:
        """The types that have a handler here, sorted. `parallel`, `parallel.fan_in` and `stack.manager_loop` are the engine's own."""
        return tuple(sorted(self._handlers))


def default_registry() -> HandlerRegistry:
    """A new registry with the built-in handlers."""
    return HandlerRegistry(
        {
            "start": PassHandler(),
            "exit": PassHandler(),
            "conditional": PassHandler(),
            "wait": WaitHandler(),
            "command": CommandHandler(),
            "agent": AgentHandler(tools=True),
            "prompt": AgentHandler(tools=False),
            "human": HumanHandler(),
        }
    )


def as_handler(value: object, name: str) -> Handler:
    """A handler object, a function, or a class of handlers that can be made without arguments, as a handler object.

    Raises:
        HandlerLoadError: it is none of these.
    """
    if inspect.isclass(value):
        try:
            value = value()
        except TypeError as error:
            raise HandlerLoadError(f"the handler `{name}` is a class that cannot be made without arguments: {error}") from error
    run = getattr(value, "run", None)
    if run is not None and callable(run):
        return cast(Handler, value) if inspect.iscoroutinefunction(run) else FunctionHandler(run, name)
    if callable(value):
        return FunctionHandler(cast(HandlerFunction, value), name)
    raise HandlerLoadError(
        f"the handler `{name}` is a {type(value).__name__}, not a function or an object with a `run` method",
        hints=("write `async def name(call: NodeCall) -> Outcome`",),
    )


def load_user_handlers(registry: HandlerRegistry, config: Mapping[str, str], directory: Path) -> None:
    """Register the handlers of the configuration (`type` -> `module:attribute`) and the installed entry points.

    Modules are looked for in `directory` (the project) first, then where Python looks. The configuration wins over an entry point of the
    same type. A name with a leading `!` in the configuration (`"!command" = "..."`) replaces a built-in type; without it that is refused.

    Raises:
        HandlerLoadError: a module or attribute is missing, a module fails to load, or it is no handler. Nothing is registered then.
    """
    loaded: dict[str, tuple[object, bool]] = {}
    for point in _entry_points():
        if point.name.removeprefix("!") not in {name.removeprefix("!") for name in config}:
            try:
                loaded[point.name] = (point.load(), False)
            except (ImportError, AttributeError) as error:
                raise HandlerLoadError(f"the installed handler `{point.name}` (`{point.value}`) cannot be loaded: {error}") from error
    for name, reference in config.items():
        loaded[name.removeprefix("!")] = (_load(name.removeprefix("!"), reference, directory), name.startswith("!"))
    for name, (value, _) in loaded.items():
        as_handler(value, name)
    for name, (value, replace) in loaded.items():
        registry.register(name, as_handler(value, name), replace=replace)


def installed_types() -> frozenset[str]:
    """The node types that installed packages serve (entry points); nothing is loaded."""
    return frozenset(point.name.removeprefix("!") for point in _entry_points())


def _entry_points() -> Iterable[importlib.metadata.EntryPoint]:
    return importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)


def _load(type: str, reference: str, directory: Path) -> object:
    module_name, colon, attribute = reference.partition(":")
    if not colon or not attribute or not all(part.isidentifier() for part in (*module_name.split("."), *attribute.split("."))):
        raise HandlerLoadError(
            f"`{reference}` does not name the handler of `{type}`", hints=('write `module:attribute`, say "tools.deploy:handler"',)
        )
    value: object = _module(type, module_name, directory)
    for part in attribute.split("."):
        if not hasattr(value, part):
            raise HandlerLoadError(f"the module `{module_name}` has no `{attribute}` (handler of `{type}`)")
        value = getattr(value, part)
    return value


def _module(type: str, name: str, directory: Path) -> object:
    importlib.invalidate_caches()
    # Compiled files would be written into the person's checkout (and make it dirty), also by what a handler imports later: so it stays off.
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(directory))
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise HandlerLoadError(
                f"the module `{name}` (handler of `{type}`) was not found",
                hints=(f"it is looked for in `{directory}` and in the environment of arc",),
            ) from error
        raise HandlerLoadError(f"the module `{name}` (handler of `{type}`) cannot be loaded: {error}") from error
    except (Exception, SystemExit) as error:  # a user's module may fail in any way
        raise HandlerLoadError(f"the module `{name}` (handler of `{type}`) cannot be loaded: {_name_of(error)}") from error
    finally:
        sys.path.remove(str(directory))


def _name_of(error: BaseException) -> str:
    return f"{error.__class__.__name__}: {error}"
