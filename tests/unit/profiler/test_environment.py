"""Environment, telemetry and registry on whatever machine this is."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from capplan.errors import DeviceError, UnknownIdError
from capplan.schema.verdict import Stability
from profiler import registry
from profiler.environment import (
    cpu_name,
    describe,
    has_bfloat16,
    usable_cores,
    usable_memory_bytes,
)
from profiler.telemetry.null import NullTelemetry, cpu_ticks
from profiler.telemetry.nvml import nvml_index

ROOT = Path(__file__).parents[3]


def test_the_environment_names_cpu_memory_and_libraries_but_no_host():
    environment = describe()
    assert environment.device.kind == "cpu"
    assert environment.device.memory_bytes > 2**28
    assert environment.libraries["numpy"]
    assert platform.node() not in environment.model_dump_json()


def test_a_container_s_limits_are_smaller_than_the_machine(tmp_path):
    quota, memory = tmp_path / "cpu.max", tmp_path / "memory.max"
    quota.write_text("100000 100000\n")
    memory.write_text("1073741824\n")
    assert usable_cores(cpu_max=str(quota)) == 1
    assert usable_memory_bytes(memory_max=str(memory)) == 2**30
    quota.write_text("max 100000\n")
    memory.write_text("max\n")
    assert usable_cores(cpu_max=str(quota)) >= 1
    assert usable_memory_bytes(memory_max=str(memory)) > 2**28


def test_a_machine_without_proc_still_has_a_name_and_memory(tmp_path):
    absent = str(tmp_path / "absent")
    assert cpu_name(absent)
    assert usable_memory_bytes(absent, absent) > 2**28


def test_cpu_time_is_read_where_linux_counts_it(tmp_path):
    stat = tmp_path / "stat"
    stat.write_text("cpu 100 0 0 900 0 0 0 0\n")
    assert cpu_ticks(stat) == (100, 1000)
    idle = NullTelemetry(window_s=0.0, stat_file=str(stat))
    assert idle.isolation(loaded=False).stability is Stability.STABLE
    assert cpu_ticks(tmp_path / "absent") is None
    assert NullTelemetry(0.0, str(tmp_path / "absent")).isolation(loaded=True).reasons == ()


@pytest.mark.skipif(not Path("/proc/stat").exists(), reason="counts CPU time the Linux way")
def test_real_work_beside_us_makes_the_machine_noisy():
    code = "while True: pass"
    workers = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(usable_cores())]
    try:
        verdict = NullTelemetry(window_s=0.3).isolation(loaded=False)
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    if os.cpu_count() == usable_cores():
        assert verdict.stability is Stability.NOISY
        assert verdict.reasons[0].value > 0.1


@pytest.mark.parametrize(
    ("device", "visible", "index"),
    [("cuda", "", 0), ("cuda:1", "", 1), ("cuda:1", "4,6", 6), ("cuda", "GPU-ab", "GPU-ab")],
)
def test_cuda_numbers_are_translated_for_nvml(device, visible, index):
    assert nvml_index(device, {"CUDA_VISIBLE_DEVICES": visible}) == index


def test_a_cuda_number_that_is_hidden_is_an_error():
    with pytest.raises(DeviceError, match="shows 1 GPUs"):
        nvml_index("cuda:1", {"CUDA_VISIBLE_DEVICES": "3"})


def test_an_unknown_backend_is_named_with_the_known_ones():
    with pytest.raises(UnknownIdError) as caught:
        registry.create_backend("jax")
    assert "torch" in caught.value.remedy
    assert "fake" not in caught.value.remedy


def test_without_torch_the_backend_says_what_to_install(tmp_path):
    """A real interpreter whose path lacks torch: links to all other installed packages."""
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if not entry.name.startswith("torch"):
            (tmp_path / entry.name).symlink_to(entry)
    code = (
        "import sys; sys.path[:0] = sys.argv[1:]\n"
        "from profiler.registry import available_backends, create_backend\n"
        "from capplan.errors import MissingPackageError\n"
        "print(available_backends()[0].missing, available_backends()[0].install)\n"
        "try: create_backend('torch')\n"
        "except MissingPackageError as error: print(error)\n"
    )
    command = [sys.executable, "-S", "-c", code, str(ROOT), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "torch>=2.6" in done.stdout
    assert done.stdout.count("pip install 'capplan[profile]'") == 2


def test_importing_the_session_loads_no_gpu_stack():
    code = "import sys, profiler.session; print(*sys.modules)"
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environ
    )
    assert not {"torch", "transformers", "pynvml", "vllm"} & set(done.stdout.split())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("flags\t\t: fpu avx2 f16c", False),
        ("flags\t\t: fpu avx512f avx512_bf16", True),
        ("Features\t: fp asimd bf16", True),
        ("processor\t: 0", True),
    ],
)
def test_a_processor_says_whether_it_computes_in_bfloat16(tmp_path, line, expected):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(line + "\n")
    assert has_bfloat16(str(cpuinfo)) is expected
    assert has_bfloat16(str(tmp_path / "absent")) is True
