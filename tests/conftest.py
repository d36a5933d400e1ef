"""Fixtures shared by every part of the suite."""

from __future__ import annotations

import importlib.util
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType


if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell that starts the tests in the background leaves Ctrl-C ignored, here and in children.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _helper(name: str) -> ModuleType:
    # Loaded by path: the suite runs without its own folder on sys.path (import-mode=importlib).
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def answers() -> Any:
    """The module that makes answers of Prometheus."""
    return _helper("prometheus_answers")


@pytest.fixture(scope="session")
def synthetic() -> Any:
    """The module that makes profiles with known coefficients."""
    return _helper("synthetic_profiles")


@pytest.fixture(scope="session")
def sample_plans() -> Any:
    """The module with make_plan, make_option and infeasible_plan: illustrative figures."""
    return _helper("sample_plans")


@pytest.fixture(scope="session")
def tiny_llms() -> Any:
    """The module that builds small random LLMs; tests that use it need torch and transformers."""
    pytest.importorskip("transformers")
    return _helper("tiny_llms")


@pytest.fixture(scope="session")
def planted_engine() -> Any:
    """The module that makes profiles of an H100 from planted engine constants."""
    return _helper("planted_engine")


@pytest.fixture(scope="session")
def stand_in() -> Any:
    """The module with StandIn, a loopback server that behaves as an engine, or badly."""
    return _helper("stand_in_server")


@pytest.fixture(scope="session")
def hostile() -> ModuleType:
    """The module with Hostile, a loopback server with a fault for every way to go wrong."""
    return _helper("hostile_server")


@pytest.fixture(scope="session")
def planted_worker() -> ModuleType:
    """The module with a worker process that goes wrong where it is told to."""
    return _helper("planted_worker")
