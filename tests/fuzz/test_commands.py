"""Whatever file a command is given, it answers or says what is wrong: never a traceback."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from capplan.cli.main import main

ANSWER, ERROR, MISUSE = 0, 1, 2

LOAD = ("--target", "qwen3-8b", "--budget", "9000", "--rate", "1")
COMMANDS: dict[str, tuple[str, ...]] = {
    "report": ("report", "x.json"),
    "launch": ("launch", "x.json"),
    "what-if": ("what-if", "x.json"),
    "breakeven": ("breakeven", "--plan", "x.json", "--compare-api", "openai:gpt-4o"),
    "schedule": ("schedule", "x.json"),
    "load": ("load", "x.json", "--rate", "1"),
    "simulate": ("simulate", "x.json"),
    "calibrate": ("calibrate", "x.json", "-o", "c.json"),
    "diff": ("diff", "x.json", "x.json"),
    "prompts": ("prompts", "x.json"),
    "claims": ("claims", "--on", "x.json"),
    "import": ("import", "x.json"),
    "workload": ("workload", "x.yaml"),
    "workload, CSV": ("workload", "x.csv"),
    "workload, gzip": ("workload", "x.csv.gz"),
    "workload, JSON lines": ("workload", "x.jsonl"),
    "workload, Parquet": ("workload", "x.parquet"),
    "batch": ("batch", "x.yaml", "-o", "out"),
    "facts check": ("facts", "check", "x.csv"),
    "facts show": ("facts", "show", "./x.json"),
    "memory": ("memory", "./x.json", "--gpu", "l4"),
    "pair": ("pair", "./x.json", "./x.json"),
    "prices check": ("prices", "check", "x.csv"),
    "prices check, JSON": ("prices", "check", "x.json"),
    "prices list": ("prices", "list", "--price-file", "x.csv"),
    "recommend, profile": ("recommend", *LOAD, "--profile", "x.json"),
    "recommend, calibration": ("recommend", *LOAD, "--calibration", "x.json"),
    "recommend, prices": ("recommend", *LOAD, "--price-file", "x.csv"),
    "recommend, workload": ("recommend", *LOAD[:4], "--workload", "x.yaml"),
    "profile, prompts": ("profile", "./x.gguf", "--prompts", "x.jsonl"),
    "profile, GGUF": ("profile", "./x.gguf"),
    "validate": ("validate", "folder"),
    "watch": ("watch", "http://127.0.0.1:9", "--profile", "x.json", "--once"),
}
CONTENTS = {
    "nothing": b"",
    "binary": bytes(range(256)) * 8,
    "a number": b"7",
    "nested deeply": b"[" * 100_000,
    "objects nested deeply": b'{"a":' * 100_000,
    "a huge number": b'{"schema_version": ' + b"9" * 400 + b', "a": 1e999}',
    "half a character": b'{"schema_version": 1, "\\ud800": "\\udfff"}',
    "a table": b"gpu,usd_per_gpu_hour\n" + b"l4,1e999\n" * 3,
}


def run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> tuple[int, str]:
    monkeypatch.setattr(sys, "argv", ["capplan", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert isinstance(ended.value.code, int)
    return ended.value.code, capsys.readouterr().err


def files_of(command: str) -> list[str]:
    return sorted({word for word in COMMANDS[command] if "x." in word})


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS)
def test_a_file_of_anything_is_explained(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    command: str,
    content: bytes,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "speedup.csv").write_bytes(content)
    for name in files_of(command):
        (tmp_path / name).write_bytes(content)
    code, said = run(monkeypatch, capsys, COMMANDS[command])
    if command == "validate" and code == ANSWER:  # of an unknown table it reads no row
        return
    explained(code, said)


@pytest.mark.parametrize("command", [name for name in COMMANDS if files_of(name)])
def test_a_folder_in_place_of_a_file_is_explained(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    command: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in files_of(command):
        (tmp_path / name).mkdir()
    explained(*run(monkeypatch, capsys, COMMANDS[command]))


def explained(code: int, said: str) -> None:
    """Hold an ending to the promise: one error, with a remedy where it is ours."""
    assert code in (ERROR, MISUSE), said
    assert "Traceback" not in said
    assert len(said) < 10_000
    assert said.count("Error: ") == 1, said
    if code == ERROR:
        lines = [line for line in said.partition("Error: ")[2].splitlines() if line.strip()]
        assert len(lines) >= 2, f"no remedy: {said}"
