"""The frame around commands: lazily imported commands, common options before and after the command, plain coercion.

typer builds each command, but three of its habits cost time that `arc --help` and every hot command would pay:

- It wants all commands imported up front. `LazyGroup` holds a `LazyCommand` per command: name and help only; the module is imported
  when a context is made for it (an invocation, its help, a completion inside it).
- It imports rich for help texts. `TYPER_USE_RICH=0` (typer's documented switch, read when typer is imported) keeps it out.
- It coerces each value through pydantic, 80 ms to import. Texts, paths, numbers and fixed choices need none of it: `_plain` does those.

All of it is public API of typer but two seams: `get_runtime_param` of a parameter, guarded by a test that lists imported modules, and the
table of completion scripts, guarded by tests in a real bash and zsh.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

_before = os.environ.get("TYPER_USE_RICH")
os.environ["TYPER_USE_RICH"] = "0"
import typer  # noqa: E402
from typer import _completion_shared  # noqa: E402
from typer.core import TyperCommand, TyperGroup  # noqa: E402
from typer.main import get_command, get_install_completion_arguments  # noqa: E402

if _before is None:
    del os.environ["TYPER_USE_RICH"]
else:
    os.environ["TYPER_USE_RICH"] = _before

from arc.cli import ui  # noqa: E402

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


_BASH = r"""
%(complete_func)s() {
    # bash cuts words after `:` and `=` and before `@`; targets hold these, so arc gets the line, and what bash has already is left out
    local line="${COMP_LINE:0:COMP_POINT}"
    local word="${line##*[[:space:]]}"
    local last="${word##*[:=]}"
    [[ $last == *@* ]] && last="@${last##*@}"
    local before="${word%%"$last"}"
    local IFS=$'\n'
    COMPREPLY=( $( env _ARC_LINE="$line" COMP_WORDS="$line" COMP_CWORD=0 %(autocomplete_var)s=complete_bash $1 ) )
    COMPREPLY=( "${COMPREPLY[@]#"$before"}" )
    return 0
}

complete -o default -F %(complete_func)s %(prog_name)s
"""
_completion_shared._completion_scripts["bash"] = _BASH

_ZSH = r"""
#compdef %(prog_name)s

%(complete_func)s() {
    [[ ${words[CURRENT]} == --*=* ]] && compset -P '*='
    eval $(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" %(autocomplete_var)s=complete_zsh %(prog_name)s)
}

# loaded from $fpath it is the completion itself (else the first Tab would only define it); sourced it is registered
if [[ ${funcstack[1]} == _%(prog_name)s ]]; then
    %(complete_func)s "$@"
else
    compdef %(complete_func)s %(prog_name)s
fi
"""
_completion_shared._completion_scripts["zsh"] = _ZSH


def completion_script(shell: str) -> str:
    """The script that completes arc's command line in `bash`, `zsh` or `fish`; `--install-completion` writes the same one."""
    return _completion_shared.get_completion_script(prog_name="arc", complete_var="_ARC_COMPLETE", shell=shell)


@dataclass(frozen=True)
class Entry:
    """A row of the command table: the module that holds `command` (a function), and the first line of its help."""

    module: str
    help: str
    hidden: bool = False


@dataclass(frozen=True)
class _Plain:
    """Coerces one parameter's text without pydantic; `make` turns one text into one value and raises ValueError."""

    make: Callable[[str], object]
    choices: tuple[str, ...]
    many: bool

    def coerce(self, value: Any, param: Any, ctx: Any) -> object:
        if value is None:
            return () if self.many else None
        if self.many:
            return [self._one(item, param, ctx) for item in value]
        return self._one(value, param, ctx)

    def _one(self, value: object, param: Any, ctx: Any) -> object:
        if not isinstance(value, str):
            return value
        if self.choices and value not in self.choices:
            raise typer.BadParameter(f"`{value}` is not one of {', '.join(self.choices)}.", ctx=ctx, param=param)
        try:
            return self.make(value)
        except ValueError:
            raise typer.BadParameter(f"`{value}` is not a {_KINDS.get(self.make, 'value that fits')}.", ctx=ctx, param=param) from None


_KINDS: Mapping[object, str] = {int: "whole number", float: "number", Path: "path"}
_MAKERS: Mapping[object, Callable[[str], object]] = {str: str, Path: Path, int: int, float: float}


def _plain(parameter: Any) -> _Plain | None:
    """How to coerce this parameter without pydantic; None where typer's own way is needed (flags, ranges, files, custom types)."""
    descriptor = parameter.type_descriptor
    info = descriptor.parameter_info
    if descriptor.is_ranged or descriptor.is_file or info.parser or getattr(info, "exists", False):
        return None
    annotation, many = descriptor.annotation, descriptor.is_list
    if many:
        (annotation,) = get_args(annotation)
    if get_origin(annotation) is Literal:
        return _Plain(str, tuple(get_args(annotation)), many)
    if annotation is bool:
        return _Plain(str, (), many)
    maker = _MAKERS.get(annotation)
    return None if maker is None else _Plain(maker, (), many)


def _unburden(parameters: Sequence[Any]) -> None:
    for parameter in parameters:
        plain = _plain(parameter) if hasattr(parameter, "type_descriptor") else None
        if plain is not None:
            parameter.get_runtime_param = lambda plain=plain: plain


def _set_json(value: bool) -> None:
    ui.state.json |= value


def _set_quiet(value: bool) -> None:
    ui.state.quiet |= value


def _set_verbose(value: bool) -> None:
    ui.state.verbose |= value


def _set_debug(value: bool) -> None:
    ui.state.debug |= value


def _set_color(value: ui.Color | None) -> None:
    if value is not None:
        ui.state.color = value


def _common(
    json: Annotated[
        bool, typer.Option("--json", callback=_set_json, expose_value=False, help="Print the answer as JSON (docs/json.md)")
    ] = False,
    quiet: Annotated[bool, typer.Option("-q", "--quiet", callback=_set_quiet, expose_value=False, help="No progress, no notes")] = False,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", callback=_set_verbose, expose_value=False, help="Say more")] = False,
    color: Annotated[
        ui.Color | None,
        typer.Option(
            "--color",
            metavar="WHEN",
            callback=_set_color,
            expose_value=False,
            help="auto, always or never; NO_COLOR is obeyed [default: auto]",
        ),
    ] = None,
    debug: Annotated[bool, typer.Option("--debug", callback=_set_debug, expose_value=False, help="Show tracebacks")] = False,
) -> None:
    """Holds the declarations of the common options."""


class Command(TyperCommand):
    """A command whose help option is coerced plainly too."""

    def get_help_option(self, ctx: Any) -> Any:
        """The `-h, --help` option."""
        return _plain_help(super().get_help_option(ctx))


def _plain_help(option: Any) -> Any:
    if option is not None:
        _unburden([option])
    return option


def build_command(function: Callable[..., object], name: str, entry_help: str | None = None) -> TyperCommand:
    """A command from a function, with the common options behind its own."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command(name, cls=Command, context_settings=CONTEXT, short_help=entry_help)(function)
    command = get_command(app)
    assert isinstance(command, TyperCommand)
    if function is not _common:
        command.params.extend(common_parameters())
    _unburden(command.params)
    return command


def common_parameters() -> list[Any]:
    """The common options, as parameters of any command or group."""
    return list(build_command(_common, "common").params)


class LazyCommand(TyperCommand):
    """Name and help of a command whose module is imported when it is needed."""

    def __init__(self, name: str, entry: Entry) -> None:
        super().__init__(name, help=entry.help, short_help=entry.help, hidden=entry.hidden, rich_markup_mode=None)
        self.entry = entry

    def load(self) -> TyperCommand:
        """The real command. Its module holds the function `command`."""
        function = import_module(self.entry.module).command
        assert self.name is not None
        return build_command(function, self.name, self.entry.help)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """A context of the real command."""
        return self.load().make_context(info_name, args, parent=parent, **extra)


class LazyGroup(TyperGroup):
    """A group of lazily imported commands. Without a command it shows its help (on stderr, exit 2)."""

    def get_help_option(self, ctx: Any) -> Any:
        """The `-h, --help` option."""
        return _plain_help(super().get_help_option(ctx))

    def __init__(
        self,
        name: str,
        *,
        help: str,
        epilog: str | None = None,
        commands: Mapping[str, Entry],
        groups: Sequence[LazyGroup] = (),
        root: bool = False,
    ) -> None:
        table: dict[str, Any] = {group.name or "": group for group in groups}
        table.update((key, LazyCommand(key, entry)) for key, entry in commands.items())
        parameters = common_parameters()
        if root:
            parameters += get_install_completion_arguments()
            _unburden(parameters)
        super().__init__(
            name=name,
            help=help,
            epilog=epilog,
            commands=table,
            params=parameters,
            context_settings=CONTEXT,
            no_args_is_help=True,
            rich_markup_mode=None,
        )
