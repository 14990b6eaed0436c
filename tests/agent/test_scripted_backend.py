"""The `scripted` backend: the entry that fits, real edits that stay inside, and errors that name the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from arc.agent.errors import BackendError, ScriptError
from arc.agent.scripted_backend import ScriptedBackend
from tests.agent.support import ask


def script(*entries: str) -> ScriptedBackend:
    return ScriptedBackend.load("schema = 1\n" + "\n".join(f"[[reply]]\n{entry}\n" for entry in entries), "replies.toml")


def edit(text: str) -> ScriptedBackend:
    return script(f'node = "plan"\n[[reply.edit]]\n{text}')


def test_the_most_specific_entry_that_fits() -> None:
    backend = script(
        'node = "plan"\ntext = "any"',
        'node = "plan"\nvisit = 2\ntext = "second visit"',
        'node = "plan"\nvisit = 2\nattempt = 2\ntext = "second attempt of it"',
        'node = "fan:left/plan"\ntext = "in the branch"',
        'node = "plan"\ntext = "never"',
    )
    here = Path.cwd()
    assert ask(backend, here).text == "any"
    assert ask(backend, here, visit=2).text == "second visit"
    assert ask(backend, here, visit=2, attempt=2).text == "second attempt of it"
    assert ask(backend, here, node="fan:left/plan", visit=2).text == "in the branch"
    assert ask(backend, here, node="fan:right/plan").text == "any"


def test_a_missing_entry_says_which_one_to_add(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match=r"replies.toml has no reply for `build`, visit 3, attempt 1") as caught:
        ask(script('node = "plan"'), tmp_path, node="build", visit=3)
    assert caught.value.failure_class == "structural"
    assert caught.value.hints == ('add one: [[reply]] node = "build", visit = 3, text = "..."',)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('path = "a.txt"\nwrite = "new"', "new"),
        ('path = "a.txt"\nappend = " more"', "old text more"),
        ('path = "a.txt"\nreplace = "old"\nwith = "young"', "young text"),
        ('path = "a.txt"\nreplace = " text"\nwith = ""', "old"),
    ],
)
def test_edits_are_real(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "a.txt").write_text("old text")
    ask(edit(text), tmp_path)
    assert (tmp_path / "a.txt").read_text() == expected


def test_append_creates_delete_removes_mode_changes(tmp_path: Path) -> None:
    (tmp_path / "b.txt").write_text("x")
    ask(
        script(
            'node = "plan"\n[[reply.edit]]\npath = "d/a.sh"\nappend = "echo"\nmode = "755"\n[[reply.edit]]\npath = "b.txt"\ndelete = true',
        ),
        tmp_path,
    )
    assert (tmp_path / "d" / "a.sh").read_text() == "echo"
    assert (tmp_path / "d" / "a.sh").stat().st_mode & 0o777 == 0o755
    assert not (tmp_path / "b.txt").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('path = "a.txt"\nreplace = "x"\nwith = "y"', "stands 0 times in `a.txt`, not once"),
        ('path = "a.txt"\nreplace = "o"\nwith = "y"', "stands 2 times in `a.txt`, not once"),
        ('path = "gone.txt"\ndelete = true', "the edit of `gone.txt` failed"),
        ('path = "link/out.txt"\nwrite = "y"', "leads out of the working directory"),
        ('path = "link/out.txt"\ndelete = true', "leads out of the working directory"),
        ('path = "link/out.txt"\nmode = "777"', "leads out of the working directory"),
    ],
)
def test_an_edit_that_cannot_be_made_fails_the_call(tmp_path: Path, text: str, message: str) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("foo")
    (tmp_path / "out.txt").write_text("outside")
    (work / "link").symlink_to(tmp_path)
    with pytest.raises(BackendError) as caught:
        ask(edit(text), work)
    assert message in caught.value.message
    assert (tmp_path / "out.txt").read_text() == "outside"


def test_command_failure_and_usage(tmp_path: Path) -> None:
    reply = ask(
        script('node = "plan"\ncommand = "echo hi > made"\ntext = "t"\nusage = { model = "m", input_tokens = 7, cost = 0.5 }'), tmp_path
    )
    assert (tmp_path / "made").read_text() == "hi\n"
    assert reply.usage is not None
    assert (reply.usage.model, reply.usage.input_tokens, reply.usage.cost) == ("m", 7, 0.5)
    with pytest.raises(BackendError, match="the command of `plan` ended with exit code 3"):
        ask(script('node = "plan"\ncommand = "exit 3"'), tmp_path)


def test_a_scripted_failure_has_its_class(tmp_path: Path) -> None:
    backend = script(
        'node = "plan"\nattempt = 1\nfail = { class = "transient_infra", message = "overloaded" }', 'node = "plan"\ntext = "fine"'
    )
    with pytest.raises(BackendError, match="overloaded") as caught:
        ask(backend, tmp_path)
    assert caught.value.failure_class == "transient_infra"
    assert ask(backend, tmp_path, attempt=2).text == "fine"


def test_a_prompt_node_changes_nothing(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="is a prompt node; it may not change files"):
        ask(edit('path = "a"\nwrite = "x"'), tmp_path, tools=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("schema = ", "replies.toml: not valid TOML: Invalid value (at end of document)"),
        ("", "replies.toml:1: this is not a script of schema 1"),
        ("schema = 2", "replies.toml:1: this is not a script of schema 1"),
        ("schema = 1\nfoo = 1", "replies.toml:1: Object contains unknown field `foo`"),
        ('schema = 1\n\n[[reply]]\nnode = "a"\n\n[[reply]]\nnode = 3', "replies.toml:6: Expected `str`, got `int`"),
        ('schema = 1\n[[reply]]\nnode = "a"\ntext = """\n[[reply]]\n"""\n[[reply]]\nnoed = "b"', "replies.toml:7: Object"),
        ('schema = 1\n[[reply]]\nnode = "a"\n[[reply.edit]]\npath = "../x"\nwrite = ""', "replies.toml:2: the path `../x` is not inside"),
        ('schema = 1\n[[reply]]\nnode = "a"\n[[reply.edit]]\npath = "/x"\nwrite = ""', "replies.toml:2: the path `/x` is not inside"),
        ('schema = 1\n[[reply]]\nnode = "a"\n[[reply.edit]]\npath = "x"', "replies.toml:2: the edit of `x` must have exactly one of"),
        ('schema = 1\n[[reply]]\nnode = "a"\n[[reply.edit]]\npath = "x"\nwrite = ""\ndelete = true', "must have exactly one of"),
        ('schema = 1\n[[reply]]\nnode = "a"\n[[reply.edit]]\npath = "x"\nreplace = "a"', "must have both replace (not empty) and with"),
        ('schema = 1\n[[reply]]\nnode = "a"\n[[reply.edit]]\npath = "x"\nmode = "rwx"', "not three or four octal digits"),
        ('schema = 1\n[[reply]]\nnode = "a"\nfail = { class = "weird" }', "Invalid enum value 'weird'"),
    ],
)
def test_a_script_that_cannot_be_used_names_the_line(text: str, message: str) -> None:
    with pytest.raises(ScriptError) as caught:
        ScriptedBackend.load(text, "replies.toml")
    assert message in caught.value.message
