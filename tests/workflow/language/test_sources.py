"""Sources: files beside the workflow, and their replay from what was stored."""

from __future__ import annotations

from pathlib import Path

import pytest

from arc.base.errors import NotFoundError
from arc.workflow.language.errors import WorkflowError
from arc.workflow.language.sources import FileSources, RecordingSources, StoredSources, join_path


def test_files_are_read_relative_to_the_directory(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/é.md").write_text("Größe", encoding="utf-8")
    assert FileSources(tmp_path).read("./prompts/é.md") == "Größe"


@pytest.mark.parametrize("path", ["missing.md", "folder", "a\0b", "x" * 300, "file.md/below"])
def test_what_cannot_be_read_is_not_found_and_named(tmp_path: Path, path: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file.md").touch()
    with pytest.raises(NotFoundError) as caught:
        FileSources(tmp_path).read(path)
    assert f"`{path}`" in caught.value.message


def test_a_file_that_is_no_text_is_an_error_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "p.md").write_bytes(b"ok\n\xff")
    with pytest.raises(WorkflowError, match=r"p\.md:2:1: byte 0xff"):
        FileSources(tmp_path).read("p.md")


def test_stored_texts_are_found_by_any_spelling_of_their_path() -> None:
    stored = StoredSources({"./a//b.md": "B"})
    assert [stored.read(path) for path in ("a/b.md", "a/x/../b.md", "./a/b.md")] == ["B"] * 3
    with pytest.raises(NotFoundError, match=r"holds no file `c\.md`"):
        stored.read("c.md")


def test_recording_keeps_each_text_once_and_replays(tmp_path: Path) -> None:
    (tmp_path / "p.md").write_text("one")
    recorder = RecordingSources(FileSources(tmp_path))
    first = recorder.read("p.md")
    (tmp_path / "p.md").write_text("two")
    assert (first, recorder.read("./p.md"), recorder.texts) == ("one", "one", {"p.md": "one"})
    assert StoredSources(recorder.texts).read("p.md") == "one"


@pytest.mark.parametrize(
    ("base", "path", "joined"),
    [
        ("", "a.md", "a.md"),
        ("sub", "a.md", "sub/a.md"),
        ("sub", "../a.md", "a.md"),
        ("sub", "/x/a.md", "/x/a.md"),
        ("", "../a.md", "../a.md"),
    ],
)
def test_paths_in_a_child_are_relative_to_it(base: str, path: str, joined: str) -> None:
    assert join_path(base, path) == joined
