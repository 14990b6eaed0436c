"""The demonstration's workflow, killed and resumed offline: on a tiny project with the layout of the real one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

DEMO = Path(__file__).resolve().parent.parent / "demo"

FILES = {
    "src/click/__init__.py": "from .utils import format_filename as format_filename\n",
    "src/click/utils.py": "def format_filename(name):\n    return str(name)\n",
    "tests/test_utils.py": "import click\n\n\ndef test_name():\n    assert click.format_filename('a') == 'a'\n",
    "tests/test_formatting.py": "def test_nothing():\n    pass\n",
    # slow enough to be killed in the middle: it waits for nothing but the signal
    "tests/test_z_slow.py": "import time\n\n\ndef test_slow():\n    time.sleep(1)\n",
    "tests/conftest.py": "print('collecting', flush=True)\n",
    "docs/utils.rst": "Utilities\n=========\n",
    "CHANGES.rst": ".. currentmodule:: click\n\nVersion 0\n",
    "pytest.ini": "[pytest]\naddopts = -p no:cacheprovider\n",
}


@pytest.mark.slow
@pytest.mark.kill
@pytest.mark.graphviz
def test_the_demo_tells_its_whole_story(tmp_path: Path) -> None:
    project = tmp_path / "project"
    for name, text in FILES.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text)
    done = subprocess.run(
        [sys.executable, DEMO / "demo.py", "--project", project, "--python", sys.executable],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for number, words in enumerate(
        ("A workflow is a graph", "Kill it", "Resume it", "Look at it", "Fork it", "Draw it", "Your checkout"), 1
    ):
        assert f"{number}. {words}" in done.stdout
    assert "interrupted" in done.stdout
    assert done.stdout.count("success  run ") == 2
    assert "build:cases/cases (success)" in done.stdout
