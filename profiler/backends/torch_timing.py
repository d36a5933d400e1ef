"""Forward passes of one shape, ready to be timed.

The cache is filled with random numbers instead of being prefilled: attention reads it at the
same cost, and a point of 128 sequences of 8,192 tokens is ready at once. Each pass overwrites
its own slots behind the context, so every pass does the same work.
"""

from __future__ import annotations

import time

import torch

from capplan.schema.cells import Phase
from capplan.units import MS_PER_S
from profiler.backends.torch_llm import TorchLlm, memory_errors
from profiler.protocol import TimingPoint

WARM_UP_PASSES = 3
"""Passes before a capture; torch's own notes on CUDA graphs warm up with three."""


class TorchPoint:
    """A prepared timing point.

    Prefill scores the last position only, as an engine does; decoding and verification score
    every token of the pass, output projection included.
    """

    def __init__(self, llm: TorchLlm, point: TimingPoint) -> None:
        self._llm = llm
        self._context = point.context
        batch, new = point.batch, point.tokens_per_sequence
        self._keep = 1 if point.phase is Phase.PREFILL else new
        self._cache = llm.new_cache(self._context + new, prefilled=self._context)
        source = torch.Generator().manual_seed(0)
        ids = torch.randint(llm.vocab_size, (batch, new), generator=source)
        self._ids = ids.to(llm.device)
        last = self._context + new
        self._positions = torch.arange(self._context, last, device=llm.device).expand(batch, -1)
        self._graph: torch.cuda.CUDAGraph | None = None
        with memory_errors(f"{batch} sequences of {last} tokens ({point.phase.value})"):
            self._pass()
            if llm.device.type == "cuda" and point.phase is not Phase.PREFILL:
                self._graph = self._captured()

    @property
    def cuda_graph(self) -> bool:
        """Whether passes replay a captured graph; False also where a capture failed."""
        return self._graph is not None

    @torch.inference_mode()
    def _pass(self) -> torch.Tensor:
        self._cache.rewind(self._context)
        return self._llm.forward(self._ids, self._cache, self._keep, positions=self._positions)

    def _captured(self) -> torch.cuda.CUDAGraph | None:
        aside = torch.cuda.Stream(self._llm.device)
        aside.wait_stream(torch.cuda.current_stream(self._llm.device))
        with torch.cuda.stream(aside):
            for _ in range(WARM_UP_PASSES):
                self._pass()
        torch.cuda.current_stream(self._llm.device).wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self._pass()
        except torch.OutOfMemoryError:
            raise
        except RuntimeError:
            # Some passes read a size back from the device (expert routing in a Python loop) and
            # cannot be captured; they are timed launch by launch and the cell says so.
            torch.cuda.synchronize(self._llm.device)
            return None
        return graph

    def run_block(self, passes: int) -> float:
        """Run passes back to back and return their total seconds."""
        if self._llm.device.type == "cuda":
            return self._on_device(passes)
        start = time.perf_counter()
        for _ in range(passes):
            self._pass()
        return time.perf_counter() - start

    def _on_device(self, passes: int) -> float:
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        with torch.cuda.device(self._llm.device):
            torch.cuda.synchronize()
            begin.record()
            for _ in range(passes):
                if self._graph is None:
                    self._pass()
                else:
                    self._graph.replay()
            end.record()
            end.synchronize()
        return float(begin.elapsed_time(end)) / MS_PER_S

    def close(self) -> None:
        """Free the cache and the graph."""
        self._graph = None
        del self._cache, self._ids, self._positions
        if self._llm.device.type == "cuda":
            torch.cuda.empty_cache()
