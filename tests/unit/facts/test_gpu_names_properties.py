"""What holds for every name of the catalogue, however it is written."""

from __future__ import annotations

import contextlib

from hypothesis import given, settings, strategies as st

from capplan.errors import CapplanError
from capplan.facts.catalog import load_catalog
from capplan.facts.gpu_names import Unresolved, identify_gpu
from capplan.schema.gpu import GpuIdentity

CATALOG = load_catalog()
NAMES = CATALOG.gpu_names
PROPERTY = settings(derandomize=True, deadline=None, max_examples=200)

own_names = st.sampled_from(
    [(name, gpu.id) for gpu in CATALOG.gpus for name in (gpu.id, *gpu.device_names)]
)
separators = st.sampled_from([" ", "-", "_", "  ", " - "])
changes_of_case = st.sampled_from([str.lower, str.upper, str.title, lambda text: text])
strange_words = st.sampled_from(
    ["Laptop", "D", "Max", "SUPER", "Ti", "Mobile", "X", "MIG 1g.3gb", "FHHL", "LS", "Embedded"]
)


@PROPERTY
@given(own_names, separators, changes_of_case)
def test_every_name_leads_to_its_gpu_whatever_case_and_separators(named, separator, cased):
    name, gpu_id = named
    written = cased(separator.join(name.replace("-", " ").split()))
    answer = NAMES.look_up(written)
    label = NAMES.instance(written)
    assert isinstance(answer, GpuIdentity), (written, answer)
    # GKE's labels are letter by letter, and may be what a device name looks like in lower case
    assert answer.gpu == (label.gpu if label else gpu_id)


@PROPERTY
@given(own_names, strange_words)
def test_a_strange_word_never_leaves_the_plain_gpu(named, word):
    name, gpu_id = named
    for written in (f"{name} {word}", f"{name} {word} GPU"):
        answer = NAMES.look_up(written)
        plain = isinstance(answer, GpuIdentity) and answer.slice is None
        assert not plain or answer.gpu != gpu_id, written


def test_no_name_belongs_to_two_gpus() -> None:
    owners: dict[str, set[str]] = {}
    for gpu in CATALOG.gpus:
        for name in (gpu.id, *gpu.device_names):
            owners.setdefault(name.lower(), set()).add(gpu.id)
    assert {name for name, gpus in owners.items() if len(gpus) > 1} == set()


def test_no_instance_is_read_as_a_device_name() -> None:
    for instance in NAMES.instances:
        name = instance.instance.replace("#", "4").replace("*", "16")
        answer = NAMES.look_up(name)
        count = 4 if "#" in instance.instance else instance.gpu_count
        assert isinstance(answer, GpuIdentity), name
        assert (answer.gpu, answer.count) == (instance.gpu, count), name


@PROPERTY
@given(st.text(max_size=60), st.none() | st.floats())
def test_no_text_is_more_than_a_capplan_error(text, memory_mib):
    with contextlib.suppress(CapplanError):
        identify_gpu(text, memory_mib)


pieces = st.sampled_from(
    [
        *(
            "NVIDIA",
            "AMD",
            "A100",
            "H100",
            "RTX",
            "6000",
            "80GB",
            "SXM4",
            "PCIe",
            "MIG",
            "1g.10gb",
        ),
        *("-", " ", "/", ":", "x8", "8x", "GRID", "-10C", "(", "=", "99999999gb", "²", "gpu 0:"),
    ]
)


@PROPERTY
@given(st.lists(pieces, max_size=8).map("".join), st.none() | st.floats(0, 1e7))
def test_any_heap_of_known_pieces_is_answered(text, memory_mib):
    answer = NAMES.look_up(text, memory_mib)
    if isinstance(answer, Unresolved):
        assert answer.message
    else:
        assert answer.gpu in {gpu.id for gpu in CATALOG.gpus}


def test_a_pasted_page_is_refused_at_once() -> None:
    assert isinstance(NAMES.look_up("NVIDIA H100 " * 5_000), Unresolved)
    assert isinstance(NAMES.look_up("9" * 20_000 + "gb"), Unresolved)
    assert isinstance(NAMES.look_up(" " * 20_000 + "x"), Unresolved)
