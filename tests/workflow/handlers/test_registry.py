"""Handlers of users: functions, objects and classes, found in the project, refused with a clear sentence before anything runs."""

from __future__ import annotations

import asyncio
import concurrent.futures
import sys
import threading
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from arc.workflow.engine.doors import NodeCall
from arc.workflow.failures import HandlerError
from arc.workflow.handlers import registry as registry_module
from arc.workflow.handlers.errors import HandlerLoadError, UnknownTypeError
from arc.workflow.handlers.registry import FunctionHandler, default_registry, load_user_handlers
from arc.workflow.outcome import Outcome
from tests.workflow.handlers.support import Bench

MODULE = """
from arc.workflow.engine.doors import NodeCall
from arc.workflow.outcome import Outcome

def plain(call: NodeCall) -> Outcome:
    return Outcome("success", notes="plain " + str(call.node.attributes["target"]))

async def waiting(call: NodeCall) -> Outcome:
    return Outcome("success", notes="async")

class Thing:
    async def run(self, call: NodeCall) -> Outcome:
        return Outcome("success", notes="class")

thing = Thing()
number = 3

class Needs:
    def __init__(self, x: int) -> None: ...
"""

NODE = 'start -> n -> exit\n n [type="deploy", target="staging"]'


@pytest.fixture
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Path, str]]:
    """A project folder with a module of a name that no other test uses."""
    name = "tools_" + str(abs(hash(request.node.name)))
    (tmp_path / f"{name}.py").write_text(MODULE)
    yield tmp_path, name
    sys.modules.pop(name, None)


@pytest.mark.parametrize(("attribute", "notes"), [("plain", "plain staging"), ("waiting", "async"), ("thing", "class"), ("Thing", "class")])
def test_the_kinds_of_handlers(bench: Bench, project: tuple[Path, str], attribute: str, notes: str) -> None:
    directory, module = project
    handlers = default_registry()
    load_user_handlers(handlers, {"deploy": f"{module}:{attribute}"}, directory)
    assert "deploy" in handlers.types()
    assert bench.run(NODE, handler=handlers.get("deploy")).notes == notes
    assert str(directory) not in sys.path


def test_loading_writes_nothing_into_the_project(project: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    directory, module = project
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    before = sorted(directory.rglob("*"))
    load_user_handlers(default_registry(), {"deploy": f"{module}:plain"}, directory)
    assert sorted(directory.rglob("*")) == before


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("MODULE", "does not name the handler of `deploy`"),
        ("MODULE:", "does not name the handler of `deploy`"),
        ("../x:y", "does not name the handler of `deploy`"),
        ("MODULE:nothing", "has no `nothing`"),
        ("MODULE:number", "is a int, not a function"),
        ("MODULE:Needs", "cannot be made without arguments"),
        ("no_such_module_here:x", "the module `no_such_module_here` (handler of `deploy`) was not found"),
        ("broken_module:x", "cannot be loaded: ZeroDivisionError"),
        ("imports_missing:x", "cannot be loaded: No module named 'no_such_thing'"),
    ],
)
def test_what_cannot_be_loaded_is_said_at_once(project: tuple[Path, str], reference: str, message: str) -> None:
    directory, module = project
    (directory / "broken_module.py").write_text("1 / 0\n")
    (directory / "imports_missing.py").write_text("import no_such_thing\n")
    handlers = default_registry()
    with pytest.raises(HandlerLoadError) as caught:
        load_user_handlers(handlers, {"first": f"{module}:plain", "deploy": reference.replace("MODULE", module)}, directory)
    assert message in caught.value.message
    assert "first" not in handlers.types()


def test_a_built_in_type_is_replaced_only_explicitly(project: tuple[Path, str]) -> None:
    directory, module = project
    handlers = default_registry()
    with pytest.raises(HandlerLoadError, match="`command` has a handler already"):
        load_user_handlers(handlers, {"command": f"{module}:plain"}, directory)
    load_user_handlers(handlers, {"!command": f"{module}:plain"}, directory)
    assert isinstance(handlers.get("command"), FunctionHandler)


def test_entry_points_are_loaded_and_the_configuration_wins(project: tuple[Path, str], monkeypatch: pytest.MonkeyPatch) -> None:
    directory, module = project
    monkeypatch.syspath_prepend(str(directory))
    points = (
        EntryPoint("deploy", f"{module}:plain", "arc.handlers"),
        EntryPoint("other", f"{module}:thing", "arc.handlers"),
    )
    monkeypatch.setattr(registry_module, "_entry_points", lambda: points)
    handlers = default_registry()
    load_user_handlers(handlers, {"deploy": f"{module}:thing"}, directory)
    assert handlers.get("deploy") is handlers.get("other")


def test_the_types_of_installed_packages_are_known_without_loading_them(monkeypatch: pytest.MonkeyPatch) -> None:
    points = (EntryPoint("deploy", "nowhere:thing", "arc.handlers"), EntryPoint("!command", "nowhere:other", "arc.handlers"))
    monkeypatch.setattr(registry_module, "_entry_points", lambda: points)
    assert registry_module.installed_types() == {"deploy", "command"}


def test_an_unknown_type_is_named() -> None:
    with pytest.raises(UnknownTypeError, match="`nothing`"):
        default_registry().get("nothing")


def test_the_engine_s_own_types_are_not_served_here() -> None:
    assert default_registry().types() == ("agent", "command", "conditional", "exit", "human", "prompt", "start", "wait")
    with pytest.raises(HandlerLoadError):
        default_registry().register("parallel", lambda call: Outcome("success"))


def test_a_plain_function_runs_in_a_thread(bench: Bench) -> None:
    threads: list[bool] = []

    def handler(call: NodeCall) -> Outcome:
        threads.append(threading.current_thread() is threading.main_thread())
        return Outcome("success")

    bench.run(NODE, handler=FunctionHandler(handler, "deploy"))
    assert threads == [False]


@pytest.mark.parametrize("error", [KeyboardInterrupt, asyncio.CancelledError, concurrent.futures.CancelledError, StopIteration])
def test_what_a_plain_function_raises_is_never_taken_for_a_cancellation(bench: Bench, error: type[BaseException]) -> None:
    def handler(call: NodeCall) -> Outcome:
        raise error

    with pytest.raises(HandlerError, match=f"the handler `deploy` raised {error.__name__}"):
        bench.run(NODE, handler=FunctionHandler(handler, "deploy"))


def test_a_plain_function_that_exits_says_with_what(bench: Bench) -> None:
    def handler(call: NodeCall) -> Outcome:
        sys.exit("no")

    with pytest.raises(HandlerError, match=r"the handler `deploy` called sys.exit\('no'\)"):
        bench.run(NODE, handler=FunctionHandler(handler, "deploy"))


def test_a_plain_function_that_never_ends_holds_up_neither_the_run_nor_the_end_of_the_process(bench: Bench) -> None:
    begun, never = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def handler(call: NodeCall) -> Outcome:
        threads.append(threading.current_thread())
        begun.set()
        never.wait()
        return Outcome("success")

    class Impatient:
        async def run(self, call: NodeCall) -> Outcome:
            task = asyncio.create_task(FunctionHandler(handler, "deploy").run(call))
            await asyncio.to_thread(begun.wait)
            task.cancel()
            await asyncio.wait({task})
            return Outcome("skipped" if task.cancelled() else "fail")

    assert bench.run(NODE, handler=Impatient()).status == "skipped"
    assert threads[0].daemon
    never.set()
    threads[0].join()


def test_a_handler_that_returns_something_else_is_told_so(bench: Bench) -> None:
    def handler(call: NodeCall) -> Outcome:
        return "done"  # type: ignore[return-value]

    with pytest.raises(HandlerError, match="returned str, not an Outcome"):
        bench.run(NODE, handler=FunctionHandler(handler, "deploy"))


def test_registries_share_nothing() -> None:
    first, second = default_registry(), default_registry()
    first.register("mine", lambda call: Outcome("success"))
    assert "mine" not in second.types()


def test_wait_sleeps_by_the_clock(bench: Bench) -> None:
    slept: list[float] = []

    class Clock(type(bench.clock)):  # type: ignore[misc]
        async def sleep(self, seconds: float) -> None:
            slept.append(seconds)
            await asyncio.sleep(0)

    bench.clock = Clock()
    text = "start -> n -> exit\n n [shape=insulator, duration=90s]"
    assert bench.run(text).status == "success"
    bench.dry_run = True
    assert bench.run(text).notes == "dry run: not waited"
    assert slept == [90.0]
