"""Whatever a command prints of names, files and servers: a terminal shows it and obeys nothing."""

from __future__ import annotations

import io
import json
import sys
import unicodedata
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from capplan.cli.terminal import GuardedStream, Shown, guarded, say_error, visible
from capplan.reporting.watch_view import as_line, as_table
from capplan.schema.watching import Notice, ServedFigures, WatchPoll

entry = import_module("capplan.cli.main")  # the package gives its function by that name
EVIL = "e\x1b]0;title\x07\x1b[2J\x9b1m\x08\u202ev\u200bi\ufeffl\u2066\U000e0041"
FORGED = f"{EVIL}\nError: forged\r\n12:00:00 up forged"
RAW = ("\x1b]", "\x1b[2J", "\x07", "\x9b", "\x08", "\u202e", "\u200b", "\ufeff", "\u2066", "\r")
SHOWN_ANYWAY = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
"""Signs of Arabic, Syriac and Kaithi that are of a format category and have ink."""
SHOWN_ANYWAY |= set(range(0x13430, 0x13440))


class Screen(io.StringIO):
    """A stream that says whether it is a terminal."""

    def __init__(self, *, is_terminal: bool = False) -> None:
        super().__init__()
        self.is_terminal = is_terminal

    encoding = "utf-8"
    errors = "strict"

    def isatty(self) -> bool:
        return self.is_terminal


def drives(text: str) -> list[str]:
    """Return the characters of a text that drive a terminal or cannot be seen."""
    bad = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return [
        c
        for c in text
        if unicodedata.category(c) in bad and c not in "\n\t" and ord(c) not in SHOWN_ANYWAY
    ]


def test_every_control_and_every_unseen_character_is_spelled_out() -> None:
    for code in range(sys.maxunicode + 1):
        char = chr(code)
        if unicodedata.category(char)[0] in "CZ" and drives(char):
            assert visible(char).isascii(), hex(code)
    for kept in ("\n", "\t", "\u00a0", "中文", "é", "\u0600", "\U0001f680"):
        assert visible(kept) == kept


@given(st.text())
@settings(deadline=None)
def test_json_stays_the_same_json(text: str) -> None:
    try:
        written = json.dumps({text: [text]}, ensure_ascii=False)
    except UnicodeError:
        return
    assert json.loads(visible(written)) == {text: [text]}
    assert drives(visible(text)) == []


def test_a_stream_that_knows_ascii_alone_gets_an_answer_all_the_same() -> None:
    screen = Screen()
    screen.encoding = "ascii"  # type: ignore[misc]
    GuardedStream(screen).write("1.4 \u00d7 \ud800")
    assert screen.getvalue() == "1.4 \\xd7 \\ud800"


def test_only_our_own_colour_reaches_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen(is_terminal=True)
    monkeypatch.setattr(sys, "stderr", screen)
    with guarded():
        say_error(f"Error: {FORGED}", EVIL)
    text = screen.getvalue()
    assert text.startswith("\x1b[31mError: e\\u001b]0;title")
    assert text.count("\x1b") == 2
    assert not any(line.startswith("Error: forged") for line in text.splitlines())


def test_a_table_of_a_server_on_a_terminal_spells_its_names_out() -> None:
    from rich.console import Console

    screen = Screen(is_terminal=True)
    console = Console(file=screen, force_terminal=True, width=200)
    console.print(Shown(as_table(poll())))
    assert not any(raw in screen.getvalue() for raw in RAW)
    assert "title" in screen.getvalue()


def test_a_server_cannot_begin_a_line_of_the_log() -> None:
    lines = as_line(poll()).splitlines()
    assert not any(line.startswith(("Error", "12:00:00 up forged")) for line in lines)
    assert len(as_line(poll()).split("\n")) == 3


def poll() -> WatchPoll:
    figures = ServedFigures(
        model=FORGED, software=EVIL, window_s=60.0, engines=1, output_tokens_per_s=1.0, running=1.0
    )
    notice = Notice(level="alarm", check="x", text=FORGED, remedy=FORGED, source=EVIL)
    return WatchPoll(
        at="2026-01-01T12:00:00+00:00",
        url=EVIL,
        state="up",
        message=FORGED,
        figures=(figures, figures),
        notices=(notice,),
    )


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory, sample_plans: Any, synthetic: Any) -> Any:
    folder = tmp_path_factory.mktemp("evil") / EVIL
    folder.mkdir()
    for name, text in _texts(sample_plans).items():
        (folder / f"{EVIL}{name}").write_text(text, encoding="utf-8")
    return lambda name: str(folder / f"{EVIL}{name}")


def _texts(sample_plans: Any) -> dict[str, str]:
    option = sample_plans.make_option(
        id=FORGED,
        target=FORGED,
        draft=FORGED,
        gpu_name=FORGED,
        provider=FORGED,
        region=FORGED,
        launch=FORGED,
        warnings=(FORGED,),
    )
    verdict = sample_plans.make_plan().verdict.model_copy(update={"sentence": FORGED})
    plan = sample_plans.make_plan(options=(option,), verdict=verdict, advice=(FORGED,))
    other = sample_plans.make_plan()
    escaped = EVIL.replace("\\", "\\\\")
    prices = f"gpu,usd_per_gpu_hour,provider,note\n{EVIL},1.0,{EVIL},{EVIL}\n"
    good = f"gpu,usd_per_gpu_hour,provider,note\nh100-sxm-80gb,1.0,{EVIL},{EVIL}\n"
    metrics = (
        f'vllm:generation_tokens_total{{model_name="{escaped}"}} 5\n'
        f'vllm:prompt_tokens_total{{model_name="{escaped}"}} 5\n'
    )
    return {
        "plan.json": plan.model_dump_json(),
        "other.json": other.model_dump_json(),
        "prices.csv": prices,
        "good.csv": good,
        "metrics.prom": metrics,
        "gpu.csv": f"id,name,vendor,arch\n{EVIL},{EVIL},{EVIL},{EVIL}\n",
        "jobs.yaml": json.dumps({EVIL: {"x": EVIL}}),
        "load.yaml": json.dumps({EVIL: 1}),
        "broken.json": json.dumps({EVIL: EVIL}),
    }


Words = Callable[[Callable[[str], str]], list[str]]
RUNS: dict[str, Words] = {
    "batch": lambda f: ["batch", f("jobs.yaml")],
    "breakeven": lambda f: ["breakeven", f("plan.json")],
    "calibrate": lambda f: ["calibrate", f("broken.json")],
    "claims": lambda f: ["claims", EVIL],
    "cost": lambda f: ["cost", EVIL],
    "diff": lambda f: ["diff", f("plan.json"), f("other.json")],
    "diff markdown": lambda f: ["diff", f("other.json"), f("plan.json"), "--format", "markdown"],
    "diff json": lambda f: ["diff", f("plan.json"), f("other.json"), "--format", "json"],
    "doctor": lambda f: ["doctor", EVIL],
    "facts": lambda f: ["facts", "show", EVIL],
    "facts resolve": lambda f: ["facts", "resolve", EVIL, "--format", "json"],
    "facts check": lambda f: ["facts", "check", f("gpu.csv")],
    "import": lambda f: ["import", f("metrics.prom"), f("broken.json")],
    "import json": lambda f: ["import", f("metrics.prom"), "--format", "json"],
    "launch": lambda f: ["launch", f("plan.json")],
    "launch migrate": lambda f: ["launch", "--migrate", f"vllm serve 'a{EVIL}' --{EVIL}"],
    "load": lambda f: ["load", f("load.yaml")],
    "memory": lambda f: ["memory", EVIL, "--gpu", EVIL],
    "pair": lambda f: ["pair", EVIL, FORGED],
    "prices": lambda f: ["prices", "check", f("prices.csv")],
    "prices list": lambda f: ["prices", "list", "--price-file", f("good.csv")],
    "profile": lambda f: ["profile", EVIL, "--prompts", f("broken.json")],
    "profile server": lambda f: ["profile", "--server", f"http://{EVIL}"],
    "prompts": lambda f: ["prompts", f("broken.json")],
    "recommend": lambda f: ["recommend", "--target", FORGED, "--budget", "1", "--rate", "1"],
    "report": lambda f: ["report", f("plan.json")],
    "report csv": lambda f: ["report", f("plan.json"), "--format", "csv"],
    "report json": lambda f: ["report", f("plan.json"), "--format", "json"],
    "report focus": lambda f: ["report", f("plan.json"), "--format", "focus"],
    "schedule": lambda f: ["schedule", f("broken.json")],
    "schema": lambda f: ["schema", EVIL],
    "simulate": lambda f: ["simulate", f("broken.json")],
    "validate": lambda f: ["validate", f("broken.json")],
    "watch": lambda f: ["watch", f"http://{EVIL}", "--once"],
    "what-if": lambda f: ["what-if", f("broken.json")],
    "workload": lambda f: ["workload", f("load.yaml")],
    "no command": lambda f: [EVIL],
    "no option": lambda f: ["report", f"--{EVIL}"],
}


@pytest.mark.parametrize("run", RUNS)
def test_no_command_passes_on_what_drives_a_terminal(
    run: str, files: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, err = Screen(), Screen()
    monkeypatch.setattr(sys, "argv", ["capplan", *RUNS[run](files)])
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with pytest.raises(SystemExit):
        entry.main()
    assert drives(out.getvalue()) == []
    assert drives(err.getvalue()) == []
    assert "Traceback" not in err.getvalue()
    assert not any(line.startswith("Error: forged") for line in err.getvalue().splitlines())
    shown = out.getvalue() + err.getvalue()
    assert "title" in shown or run == "doctor"


def test_no_command_is_left_out() -> None:
    assert {run.split()[0] for run in RUNS if not run.startswith("no ")} == set(entry._COMMANDS)


BY_PASSING = (
    *("secho", "sys.__std", "stdout.buffer", "stderr.buffer", "os.write(", "Console(", " print("),
)


def test_commands_print_through_the_guarded_streams_alone() -> None:
    folder = Path(entry.__file__).parent
    for path in folder.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if path.name == "terminal.py":
            continue
        for by_passing in BY_PASSING:
            assert by_passing not in text.replace("console().print(", ""), (path.name, by_passing)
