"""Secrets are replaced wherever they stand and however they arrive; everything else is unchanged."""

from __future__ import annotations

import base64
import itertools
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from arc.base.json import JsonObject
from arc.base.redact import Redactor, names_a_secret

KEY = (
    "-----BEGIN RSA PRIVATE KEY-----\n" + "\n".join([base64.b64encode(bytes(range(48))).decode()] * 20) + "\n-----END RSA PRIVATE KEY-----"
)
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
# Written in two parts so that no scanner takes this file for a leak.
TOKENS = {
    "aws-access-key": "AKIA" + "IOSFODNN7EXAMPLE",
    "github-token": "ghp_" + "a1B2" * 9,
    "gitlab-token": "glpat-" + "a1B2" * 5,
    "slack-token": "xoxb-" + "123456789012-abcdefghij",
    "api-key": "sk-" + "ant-api03-" + "a1B2" * 8,
    "stripe-key": "sk_live_" + "a1B2" * 6,
    "google-key": "AIza" + "a1B2c" * 7,
    "hugging-face-token": "hf_" + "a1B2" * 9,
    "npm-token": "npm_" + "a1B2" * 9,
    "pypi-token": "pypi-AgE" + "a1B2" * 12,
    "jwt": JWT,
    "private-key": KEY,
}


@pytest.mark.parametrize(("name", "token"), TOKENS.items())
def test_known_shapes(name: str, token: str) -> None:
    text = f"before {token} after"
    assert Redactor().text(text) == f"before «redacted:{name}» after"
    assert Redactor().data(text.encode()) == f"before «redacted:{name}» after".encode()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Authorization: Bearer abcdef123456", "Authorization: Bearer «redacted:authorization»"),
        ('{"authorization": "Basic dXNlcjpwYXNz"}', '{"authorization": "Basic «redacted:authorization»"}'),
        ("postgres://me:hunter2@db.example/x", "postgres://me:«redacted:url-password»@db.example/x"),
        ("https://:secret-only@host", "https://:«redacted:url-password»@host"),
    ],
)
def test_only_the_secret_part_is_replaced(text: str, expected: str) -> None:
    assert Redactor().text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "risk-assessment-of-the-whole-thing-here",
        "https://example.org:8080/a@b",
        "time 12:30@home",
        "The authorization of the request failed",
        "a task-list sk-short",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "commit 0123456789abcdef0123456789abcdef01234567",
    ],
)
def test_what_only_looks_like_a_secret_is_unchanged(text: str) -> None:
    assert Redactor().text(text) == text


def test_an_unfinished_private_key_is_redacted_without_the_prose_after_it() -> None:
    cut = KEY[: len(KEY) // 2].rpartition("\n")[0]
    assert Redactor().text(f"{cut}\nand that was all.") == "«redacted:private-key»\nand that was all."


def test_values_of_the_environment() -> None:
    redactor = Redactor.from_environment(
        {
            "DEPLOY_TOKEN": "t0ps3cret!",
            "DB_PASSWORD": "short",
            "HOME": "/home/someone",
            "SSH_KEY": "/home/someone/.ssh/id_ed25519",
            "MONKEY": "not-a-secret",
        }
    )
    assert redactor.text("t0ps3cret! short /home/someone/.ssh/id_ed25519 not-a-secret") == (
        "«redacted:DEPLOY_TOKEN» short /home/someone/.ssh/id_ed25519 not-a-secret"
    )


@pytest.mark.parametrize(
    "name", ["API_KEY", "openai_api_key", "GITHUB_TOKEN", "MY_SECRET", "DB_PASSWORD", "AWS_SECRET_ACCESS_KEY", "X_CREDENTIALS"]
)
def test_names_of_secrets(name: str) -> None:
    assert names_a_secret(name)


@pytest.mark.parametrize("name", ["PATH", "PWD", "MONKEY", "KEYBOARD", "SSH_AUTH_SOCK", "TOKENIZER", "XAUTHORITY"])
def test_names_of_no_secrets(name: str) -> None:
    assert not names_a_secret(name)


def test_other_spellings_of_a_value() -> None:
    value = 'pa"ss\\wo/rd é\n2'
    redactor = Redactor({"P": value})
    for spelling in (value, json.dumps({"x": value}), "https://h/?p=pa%22ss%5Cwo%2Frd%20%C3%A9%0A2"):
        assert "ss" not in redactor.text(spelling)
        assert b"ss" not in redactor.data(spelling.encode())


def test_of_two_secrets_the_longer_one_is_replaced_whole() -> None:
    redactor = Redactor({"SHORT": "aaaabbbb", "LONG": "aaaabbbbcccc"})
    assert redactor.text("aaaabbbbcccc aaaabbbb") == "«redacted:LONG» «redacted:SHORT»"


def test_json_values_and_keys() -> None:
    redactor = Redactor({"P": "hunter2hunter2"})
    value: JsonObject = {"a": ["hunter2hunter2", 1, None, True], "hunter2hunter2": {"b": 2.5}}
    assert redactor.json(value) == {"a": ["«redacted:P»", 1, None, True], "«redacted:P»": {"b": 2.5}}
    assert value["a"] == ["hunter2hunter2", 1, None, True]


def test_bytes_of_any_encoding_are_unchanged() -> None:
    data = bytes(range(256)) + b"\xff\xfe hunter2hunter2 \x80"
    assert Redactor({"P": "hunter2hunter2"}).data(data) == bytes(range(256)) + b"\xff\xfe " + "«redacted:P»".encode() + b" \x80"


def test_a_stream_hands_out_finished_lines_at_once() -> None:
    stream = Redactor({"P": "hunter2hunter2"}).stream()
    assert stream.feed(b"one\ntw") == b"one\n"
    assert stream.feed(b"o hunter2") == b""
    assert stream.feed(b"hunter2!\n\xff") == "two «redacted:P»!\n".encode()
    assert stream.feed(b"progress\r") == b"\xffprogress\r"
    assert stream.feed(b"no line end") == b""
    assert stream.close() == b"no line end"


def test_a_stream_without_line_ends_is_not_held_back_for_ever() -> None:
    stream = Redactor().stream()
    out = [stream.feed(b"\x00" * 65_536) for _ in range(40)]
    assert sum(map(len, out)) > 38 * 65_536
    assert sum(map(len, out)) + len(stream.close()) == 40 * 65_536


def test_a_private_key_is_held_back_until_its_end() -> None:
    stream = Redactor().stream()
    out = b"".join(stream.feed(f"{line}\n".encode()) for line in f"first\n{KEY}\nlast".split("\n")) + stream.close()
    assert out == "first\n«redacted:private-key»\nlast\n".encode()


SECRETS = {
    "A_KEY": "s3cr3t-value",
    "B_KEY": "two\nlines-of-it",
    "C_KEY": "s3cr3t-value-longer",
    "D_KEY": "öäü-nicht-ascii",
    "E_KEY": "s3cr3t-value\nmore",
}
REDACTOR = Redactor(SECRETS)
WORDS = st.sampled_from(
    [
        *SECRETS.values(),
        *TOKENS.values(),
        "Authorization: Bearer abcdef123456",
        "ftp://u:pw@host",
        "two\n",
        "s3cr3t-value\n",
        "-----BEGIN RSA PRIVATE KEY-----",
        "-----BEGIN ",
        "plain",
        " ",
        "\n",
        "\r\n",
        "sk-",
        "eyJ",
    ]
)
NOISE = st.binary(max_size=12)


@st.composite
def chunked(draw: st.DrawFn) -> tuple[bytes, list[bytes]]:
    """A text with secrets, and the same text cut at arbitrary places."""
    parts = draw(st.lists(st.one_of(WORDS.map(str.encode), NOISE), max_size=20))
    whole = b"".join(parts)
    cuts = sorted(draw(st.lists(st.integers(0, len(whole)), max_size=12)))
    return whole, [whole[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]


def test_a_secret_inside_what_another_pattern_only_looks_at() -> None:
    """A known value that reads like the scheme of a URL, and one in the user's place before the password."""
    redactor = Redactor({"A_TOKEN": "s3cr3t-value", "B_TOKEN": "another-one"})
    assert redactor.text("sk-s3cr3t-valueftp://u:pw@host") == "sk-«redacted:A_TOKEN»ftp://u:«redacted:url-password»@host"
    assert redactor.text("ftp://another-one:pw@host") == "ftp://«redacted:B_TOKEN»:«redacted:url-password»@host"
    stream = redactor.stream()
    whole = b"".join([stream.feed(b"x sk-s3cr3t-"), stream.feed(b"valueftp://u:p"), stream.feed(b"w@host\n"), stream.close()])
    assert whole.decode() == "x sk-«redacted:A_TOKEN»ftp://u:«redacted:url-password»@host\n"


@settings(max_examples=400, deadline=None)
@example((b"sk-s3cr3t-valueftp://u:pw@host", [b"sk-s3cr3t-valueftp://u:pw@host"]))
@given(chunked())
def test_no_cutting_of_a_stream_lets_a_secret_through(case: tuple[bytes, list[bytes]]) -> None:
    whole, chunks = case
    stream = REDACTOR.stream()
    joined = b"".join([*(stream.feed(chunk) for chunk in chunks), stream.close()])
    assert joined == REDACTOR.data(whole)
    for value in SECRETS.values():
        assert value.encode() not in joined


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet="abcdefghij \n\t.,:/()=\"'", max_size=300), st.lists(st.integers(0, 300), max_size=8))
def test_text_without_secrets_passes_unchanged(text: str, cuts: list[int]) -> None:
    assert REDACTOR.text(text) == text
    data = text.encode()
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    stream = REDACTOR.stream()
    assert b"".join([*(stream.feed(data[a:b]) for a, b in itertools.pairwise(places)), stream.close()]) == data


@pytest.mark.parametrize("line_ends", [False, True])
def test_secrets_at_every_place_of_a_long_stream(line_ends: bool) -> None:
    """Longer than what is held back: the cut must never fall into a secret."""
    filler = b"x" * 997 + (b"\n" if line_ends else b" ")
    whole = b"".join(filler + f"{token} {SECRETS['B_KEY']} ".encode() for token in TOKENS.values()) * 12
    for size in (1_013, 8_191, 65_536):
        stream = REDACTOR.stream()
        out = b"".join([*(stream.feed(whole[at : at + size]) for at in range(0, len(whole), size)), stream.close()])
        assert out == REDACTOR.data(whole)


def test_replacing_twice_changes_nothing_more() -> None:
    text = " ".join([*TOKENS.values(), *SECRETS.values()])
    once = REDACTOR.text(text)
    assert REDACTOR.text(once) == once
