"""`arc validate` and `arc parse` as commands: what goes where, statuses, JSON, inputs, folders and configurations."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Arc

GOOD = "digraph good {\n  start -> work -> exit\n  work [type=command, script=true]\n}\n"
BAD = "digraph bad {\n  start -> work -> exit\n  work [type=wait]\n  exit -> work\n}\n"
WARNED = (
    "digraph warned {\n  start -> work -> wrok -> exit\n  work [type=command, script=true]\n  wrok [type=command, script=true]\n"
    "  rankdir=XX\n}\n"
)
TAKES_INPUT = (
    'digraph takes {\n  goal="Release $version"\n  start -> work -> exit\n  work [type=command, script="echo $ARC_INPUT_VERSION"]\n}\n'
)


def write(arc: Arc, name: str, text: str) -> Path:
    path = arc.cwd / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    return path


def test_a_valid_file_says_so_on_stderr_only(arc: Arc) -> None:
    write(arc, "good.dot", GOOD)
    ran = arc.inside("validate", "good.dot")
    assert (ran.stdout, ran.stderr, ran.status) == ("", "good.dot (3 nodes, 2 edges): valid\n", 0)


def test_findings_are_blocks_with_place_rule_line_caret_and_hint(arc: Arc) -> None:
    write(arc, "bad.dot", BAD)
    ran = arc.inside("validate", "bad.dot")
    assert ran.stdout == (
        "bad.dot:3:3: error[wait_without_duration]: wait node `work` has no `duration`: it would not wait at all\n"
        "      work [type=wait]\n"
        "      ^\n"
        "hint: for example `work [duration=30s]`\n"
        "bad.dot:4:3: error[exit_no_outgoing]: edge `exit -> work` leaves the exit node and is never taken\n"
        "      exit -> work\n"
        "      ^\n"
        "hint: the run ends at the exit; remove the edge\n"
    )
    assert ran.stderr == "bad.dot (3 nodes, 3 edges): 2 errors\n"
    assert ran.status == 1


def test_warnings_fail_only_with_strict(arc: Arc) -> None:
    write(arc, "warned.dot", WARNED)
    ran = arc.inside("validate", "warned.dot")
    assert "warning[direction_valid]" in ran.stdout
    assert (ran.stderr, ran.status) == ("warned.dot (4 nodes, 3 edges): valid, 1 warning\n", 0)
    assert arc.inside("validate", "--strict", "warned.dot").status == 1


def test_inputs_of_the_run_are_notices_until_they_are_given_and_errors_when_strict(arc: Arc) -> None:
    write(arc, "takes.dot", TAKES_INPUT)
    ran = arc.inside("validate", "takes.dot")
    assert ran.stdout == (
        "takes.dot:2:17: notice[undefined_variable]: the run must be given `version`\nhint: arc run start -i version=VALUE\n"
    )
    assert ran.status == 0
    assert arc.inside("validate", "-q", "takes.dot").stdout == ""
    assert arc.inside("validate", "takes.dot", "-i", "version=1").stdout == ""
    strict = arc.inside("validate", "takes.dot", "--strict")
    assert "error[undefined_variable]: undefined variable `version`" in strict.stdout
    assert strict.status == 1
    assert arc.inside("validate", "takes.dot", "--strict", "-i", "version=1").status == 0


def test_json_is_one_document_with_everything(arc: Arc) -> None:
    write(arc, "bad.dot", BAD)
    write(arc, "warned.dot", WARNED)
    ran = arc.inside("validate", "--json", "bad.dot", "warned.dot")
    document = ran.json()
    assert (document["errors"], document["warnings"], document["notices"]) == (2, 1, 0)
    assert [(file["path"], file["workflow"], file["valid"], file["nodes"], file["edges"]) for file in document["files"]] == [
        ("bad.dot", "bad.dot", False, 3, 3),
        ("warned.dot", "warned.dot", True, 4, 3),
    ]
    assert document["files"][1]["diagnostics"] == [
        {
            "rule": "direction_valid",
            "severity": "warning",
            "message": "`rankdir` is `XX`, which is no direction",
            "file": "warned.dot",
            "line": 5,
            "column": 11,
            "source_line": "  rankdir=XX",
            "source_column": 11,
            "expected": ["TB", "LR", "BT", "RL"],
            "hint": "",
        }
    ]
    assert (ran.stderr, ran.status) == ("", 1)


def test_of_a_long_line_json_has_the_part_around_the_column(arc: Arc) -> None:
    write(arc, "long.dot", f'digraph g {{ start [shape=Mdiamond, note="{"x" * 9000}"] start -> }}')
    (finding,) = arc.inside("validate", "--json", "long.dot").json()["files"][0]["diagnostics"]
    shown, column = finding["source_line"], finding["source_column"]
    assert len(shown) <= 122
    assert (shown[0], shown[column - 1 :]) == ("…", "}")
    assert finding["column"] > 9000


def test_stdin_is_a_file_too(arc: Arc) -> None:
    ran = arc("validate", "-", input=BAD)
    assert ran.stdout.startswith("<stdin>:3:3: error[wait_without_duration]")
    assert ran.status == 1
    assert arc("validate", "-", input=GOOD).stderr == "<stdin> (3 nodes, 2 edges): valid\n"


def test_files_that_cannot_be_parsed_or_decoded_are_findings(arc: Arc) -> None:
    write(arc, "broken.dot", "digraph {\n  a -> \n}")
    (arc.cwd / "binary.dot").write_bytes(b"digraph g {\n \xff }")
    ran = arc.inside("validate", "broken.dot", "binary.dot")
    assert "broken.dot:3:1: error[syntax]: unexpected `}`" in ran.stdout
    assert "binary.dot:2:2: error[syntax]: byte 0xff is not valid UTF-8" in ran.stdout
    assert (ran.stderr, ran.status) == ("2 files: 2 errors\n", 1)


def test_a_missing_file_is_status_4_and_nothing_is_checked(arc: Arc) -> None:
    write(arc, "bad.dot", BAD)
    ran = arc.inside("validate", "bad.dot", "missing.dot")
    assert (ran.stdout, ran.status) == ("", 4)
    assert "there is no file `missing.dot`" in ran.stderr


def test_a_folder_stands_for_all_workflows_and_configurations_in_it(arc: Arc) -> None:
    write(arc, "flows/a.dot", GOOD)
    write(arc, "flows/deep/b.dot", BAD)
    write(arc, "flows/run.toml", 'graph = "a.dot"\n')
    write(arc, "flows/pyproject.toml", "[project]\nname = 'x'\n")
    write(arc, "flows/.hidden/c.dot", BAD)
    write(arc, "flows/node_modules/d.dot", BAD)
    document = arc.inside("validate", "--json", "flows").json()
    assert [(file["path"], file["workflow"]) for file in document["files"]] == [
        ("flows/run.toml", "flows/a.dot"),  # the workflow is checked with its configuration, and once
        ("flows/deep/b.dot", "flows/deep/b.dot"),
    ]
    empty = arc.inside("validate", write(arc, "empty/readme.md", "x").parent.name)
    assert empty.status == 4
    assert "holds no workflow" in empty.stderr


def test_a_configuration_brings_goal_inputs_and_model(arc: Arc) -> None:
    write(arc, "flow.dot", 'digraph f { start -> a -> exit\n a [prompt="$goal $version"] }')
    write(arc, "run.toml", 'graph = "flow.dot"\ngoal = "G"\n[inputs]\nversion = "1"\n[model]\nbackend = "cli"\ncommand = ["cat"]\n')
    ran = arc.inside("validate", "--strict", "run.toml")
    assert (ran.stdout, ran.stderr, ran.status) == ("", "run.toml (3 nodes, 2 edges): valid\n", 0)
    assert "notice[model_needed]" in arc.inside("validate", "flow.dot").stdout


def test_mistakes_in_a_configuration_are_findings_with_their_place(arc: Arc) -> None:
    write(arc, "flow.dot", GOOD)
    write(arc, "run.toml", 'graph = "flow.dot"\ngaol = "G"\n')
    write(arc, "lost.toml", 'graph = "nowhere.dot"\n')
    ran = arc.inside("validate", "run.toml", "lost.toml")
    assert "run.toml:2:1: error[configuration]: unknown key `gaol`" in ran.stdout
    assert "did you mean `goal`?" in ran.stdout
    assert "lost.toml:1:1: error[configuration]:" in ran.stdout
    assert ran.status == 1


def test_handlers_of_the_project_are_known_types(arc: Arc) -> None:
    write(arc, "flow.dot", "digraph f { start -> a -> exit\n a [type=deploy] }")
    assert "warning[type_known]" in arc.inside("validate", "flow.dot").stdout
    write(arc, "arc.toml", '[handlers]\ndeploy = "ours:deploy"\n')
    assert arc.inside("validate", "flow.dot").stdout == ""


def test_handlers_of_installed_packages_are_known_types(arc: Arc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arc.runs.checking.installed_types", lambda: frozenset({"deploy"}))
    write(arc, "flow.dot", "digraph f { start -> a -> exit\n a [type=deploy] }")
    assert arc.inside("validate", "flow.dot").stdout == ""


def test_files_of_a_workflow_are_named_from_where_one_stands(arc: Arc) -> None:
    write(arc, "flows/main.dot", 'digraph m { start -> c -> exit\n c [shape=house, stack.child_workflow="kid.dot"] }')
    write(arc, "flows/kid.dot", "digraph k { start -> w -> exit\n w [type=wait] }")
    ran = arc.inside("validate", "flows/main.dot")
    assert ran.stdout.startswith("flows/kid.dot:2:2: error[wait_without_duration]")
    both = arc.inside("validate", "--json", "flows").json()
    assert both["errors"] == 1  # told once, with the first workflow that has it


@pytest.mark.parametrize("name", ["examples", "examples/implement.toml"])
def test_the_examples_are_valid_even_strictly(arc: Arc, name: str) -> None:
    root = Path(__file__).parents[2]
    ran = arc("validate", "--strict", "-i", "version=1.4.0", name, cwd=root)
    assert ran.status == 0, ran.stdout
    assert "warning[" not in ran.stdout


def test_parse_prints_the_tree_with_places(arc: Arc) -> None:
    write(arc, "flow.dot", 'digraph f {\n node [timeout=5m]\n start -> a\n subgraph s { label="Part"; b [weight=1.5, ok=true, n=3] }\n}')
    tree = arc.inside("parse", "flow.dot").ok().json()
    assert (tree["name"], tree["file"]) == ("f", "flow.dot")
    assert tree["nodes"]["b"]["attributes"] == {
        "timeout": {"value": "5m", "kind": "duration", "milliseconds": 300000, "position": {"line": 2, "column": 16}},
        "weight": {"value": 1.5, "kind": "float", "position": {"line": 4, "column": 39}},
        "ok": {"value": True, "kind": "boolean", "position": {"line": 4, "column": 47}},
        "n": {"value": 3, "kind": "integer", "position": {"line": 4, "column": 55}},
    }
    assert tree["nodes"]["b"]["classes"] == ["part"]
    assert (tree["nodes"]["a"]["declared"], tree["nodes"]["b"]["declared"]) == (False, True)
    assert tree["edges"] == [{"index": 0, "source": "start", "target": "a", "position": {"line": 3, "column": 2}, "attributes": {}}]
    assert tree["subgraphs"] == [{"name": "s", "label": "Part", "nodes": ["b"]}]


def test_parse_of_a_broken_or_missing_file(arc: Arc) -> None:
    write(arc, "broken.dot", "digraph {")
    ran = arc.inside("parse", "broken.dot")
    assert (ran.stdout, ran.status) == ("", 1)
    assert "broken.dot:1:10: the file ends too early" in ran.stderr
    assert arc.inside("parse", "missing.dot").status == 4


@pytest.mark.parametrize("path", sorted((Path(__file__).parents[2] / "examples").glob("*.dot")), ids=lambda path: path.name)
def test_the_examples_come_to_their_end_in_a_dry_run(arc: Arc, path: Path) -> None:
    inputs = ("-i", "version=1.4.0") if "$version" in path.read_text("utf-8") else ()
    ran = arc("run", "start", str(path), "--dry-run", *inputs, "--json").ok()
    assert ran.json()["status"] == "success"
