"""Files from outside are opened in one place, and nothing anywhere runs what a file says."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted([*ROOT.glob("capplan/**/*.py"), *ROOT.glob("profiler/**/*.py")])
THE_PLACE = "capplan/inputs/"

READING_METHODS = {"open", "read_text", "read_bytes", "model_validate_json"}
READING_FUNCTIONS = {
    *("open", "json.load", "json.loads", "json.JSONDecoder", "csv.reader", "csv.DictReader"),
    *("zipfile.ZipFile", "gzip.open", "yaml.safe_load", "safe_open", "load_file"),
}
RUNNING_FUNCTIONS = {
    *("eval", "exec", "compile", "__import__", "os.system", "os.popen", "yaml.load"),
    *("yaml.unsafe_load", "yaml.full_load", "np.load", "numpy.load", "jinja2.Template"),
    *("pd.read_pickle", "pandas.read_pickle", "torch.load", "os.execv", "os.execvp"),
}
RUNNING_METHODS = {"from_string", "extractall"}
PICKLES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}

ALLOWED: dict[str, tuple[set[str], str]] = {
    "capplan/deploy/known_flags.py": ({"read_text", "csv.DictReader"}, "our own table"),
    "capplan/deploy/lengths.py": ({"json.loads"}, "an option of the command line"),
    "capplan/deploy/migrate_items.py": ({"json.loads"}, "an option of the command line"),
    "capplan/facts/price_file_rows.py": (
        {"json.JSONDecoder"},
        "goes over a text again that was read through capplan.inputs, for numbers as written",
    ),
    "capplan/files/locks.py": ({"open"}, "locks: opened, never read but for a signature"),
    "capplan/files/writing.py": ({"open"}, "writes"),
    "capplan/jobs/process.py": ({"json.loads", "open"}, "our own supervisor; the end of a log"),
    "capplan/jobs/ray_cluster.py": ({"json.loads", "read_bytes"}, "what we laid out ourselves"),
    "capplan/jobs/ray_host.py": ({"model_validate_json", "read_bytes"}, "what our driver sent"),
    "capplan/jobs/store.py": ({"open", "model_validate_json"}, "a lock; a text that was bounded"),
    "capplan/jobs/supervise.py": ({"json.loads", "open", "read_text"}, "our parent, log, kernel"),
    "capplan/profiles/importers/aiperf_csv.py": ({"csv.reader"}, "lines of a bounded document"),
    "capplan/profiles/importers/guidellm_csv.py": ({"csv.reader"}, "lines of a bounded document"),
    "capplan/profiles/importers/document.py": (
        {"json.JSONDecoder"},
        "several values in a text that was read through capplan.inputs",
    ),
    "capplan/reporting/html.py": ({"json.loads"}, "what plotly made of our own figures"),
    "capplan/reporting/page.py": ({"read_text"}, "our own templates"),
    "capplan/reporting/plan_file.py": ({"model_validate_json"}, "a document that was bounded"),
    "capplan/workloads/delimited.py": ({"csv.reader"}, "blocks of a guarded stream"),
    "capplan/workloads/json_table.py": ({"json.loads"}, "lines of a guarded stream"),
    "capplan/workloads/jsonlines.py": ({"json.loads"}, "lines of a guarded stream"),
    "profiler/backends/checkpoints.py": ({"open"}, "hashes weights in blocks"),
    "profiler/backends/embedded.py": (
        {"open", "zipfile.ZipFile"},
        "a wheel whose one file is compared with a published hash",
    ),
    "profiler/backends/embedded_draft.py": (
        {"json.loads", "load_file", "read_bytes", "read_text", "safe_open"},
        "layers that ship with capplan, and the checkpoint that it converted itself",
    ),
    "profiler/backends/live_facts.py": ({"json.loads"}, "an answer of bounded size"),
    "profiler/backends/live_http.py": ({"json.loads"}, "an answer of bounded size"),
    "profiler/backends/live_quotes.py": ({"json.loads"}, "an answer of bounded size"),
    "profiler/backends/vllm_process.py": ({"json.loads"}, "our own worker"),
    "profiler/backends/vllm_worker.py": ({"json.loads"}, "our own parent"),
    "profiler/environment.py": ({"read_text"}, "the kernel"),
    "profiler/prompts.py": ({"read_text"}, "the shipped prompts"),
    "profiler/telemetry/null.py": ({"read_text"}, "the kernel"),
}
"""Who else reads, what, and why that is no file from outside."""


def names_of(function: ast.expr) -> set[str]:
    """Return what is called: ``open``, ``json.loads``, ``.read_text``."""
    if isinstance(function, ast.Name):
        return {function.id}
    if isinstance(function, ast.Attribute):
        method = f".{function.attr}"
        if isinstance(function.value, ast.Name):
            return {method, f"{function.value.id}{method}"}
        return {method}
    return set()


def calls(tree: ast.AST, functions: set[str], methods: set[str]) -> Iterator[tuple[str, ast.Call]]:
    """Yield calls of these functions, and of methods of these names on anything."""
    wanted = {name: name for name in functions} | {f".{name}": name for name in methods}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for name in sorted(names_of(node.func) & wanted.keys())[:1]:
                yield wanted[name], node


@cache
def parsed() -> tuple[tuple[str, ast.Module], ...]:
    return tuple(
        (path.relative_to(ROOT).as_posix(), ast.parse(path.read_text(encoding="utf-8")))
        for path in SOURCES
    )


def test_only_one_package_opens_what_comes_from_outside() -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for name, tree in parsed():
        if not name.startswith(THE_PLACE):
            for what, _ in calls(tree, READING_FUNCTIONS, READING_METHODS):
                found[name].add(what)
    assert found == {name: whats for name, (whats, _) in ALLOWED.items()}


def test_nothing_runs_what_it_reads() -> None:
    found = [
        f"{name}:{call.lineno}: {what}"
        for name, tree in parsed()
        for what, call in calls(tree, RUNNING_FUNCTIONS, RUNNING_METHODS)
    ]
    assert found == []


def test_no_shell_is_given_a_command() -> None:
    found = [
        f"{name}:{node.lineno}"
        for name, tree in parsed()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and any(one.arg == "shell" and not _is_false(one.value) for one in node.keywords)
    ]
    assert found == []


def _is_false(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is False


def test_nothing_is_pickled() -> None:
    found = [
        f"{name}:{node.lineno}"
        for name, tree in parsed()
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for module in _modules(node)
        if module.partition(".")[0] in PICKLES
    ]
    assert found == []


def _modules(node: ast.Import | ast.ImportFrom) -> list[str]:
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""]
    return [one.name for one in node.names]


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("Path('x').read_text()", {"read_text"}),
        ("open('x')", {"open"}),
        ("path.open()", {"open"}),
        ("json.loads(text)", {"json.loads"}),
        ("read_text(path, LIMITS)", set()),
        ("model.to(device).eval()", set()),
        ("re.compile('x')", set()),
    ],
)
def test_the_search_finds_what_it_is_for(source: str, found: set[str]) -> None:
    tree = ast.parse(source)
    functions, methods = READING_FUNCTIONS | RUNNING_FUNCTIONS, READING_METHODS | RUNNING_METHODS
    assert {what for what, _ in calls(tree, functions, methods)} == found
