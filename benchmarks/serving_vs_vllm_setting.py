"""What ``serving_vs_vllm.py`` serves: the profile of a pair, and how its server is started."""

from __future__ import annotations

import argparse
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from capplan.estimate.evidence import ProfileEvidence, evidence_from_profile
from capplan.estimate.serving_acceptance import AcceptedLengths
from capplan.estimate.serving_clocks import StepClock
from capplan.estimate.serving_limits import EngineLimits
from capplan.estimate.serving_profile import profile_acceptance, profile_clock
from capplan.profiles.store import StoredProfile, load_profile

TEMPERATURE = 0.0
BATCHED_TOKENS = 2048
KV_TOKENS = 46_000
"""1 GiB of the demo LLM's keys and values (23 kB a token); far more than is ever used here."""


@dataclass(frozen=True)
class Setting:
    """What is served."""

    stored: StoredProfile
    evidence: ProfileEvidence
    num_speculative_tokens: int
    max_num_seqs: int
    accepted: AcceptedLengths

    @property
    def limits(self) -> EngineLimits:
        """How the server is started."""
        return EngineLimits(
            self.max_num_seqs,
            BATCHED_TOKENS,
            KV_TOKENS,
            num_speculative_tokens=self.num_speculative_tokens,
        )

    @property
    def clock(self) -> StepClock:
        """Steps as profiled."""
        n = self.num_speculative_tokens
        return profile_clock(
            self.evidence,
            max_batch=self.max_num_seqs,
            lengths=(n,),
            longest_context=1024,
            curve=self.evidence.curve(TEMPERATURE, None) if n else None,
        )


def take_profile(options: argparse.Namespace, file: Path) -> StoredProfile:
    """Profile the demo pair on vLLM, in a process of its own."""
    command = [sys.executable, "-m", "capplan", "profile", "--demo", "--backend", "vllm"]
    command += ["--method", options.method, "--temperature", str(TEMPERATURE)]
    command += ["--length", str(max(options.length, 1)), "--max-tokens", str(options.max_tokens)]
    for batch in sorted({1, max(options.places // 2, 1), options.places}):
        command += ["--batch", str(batch)]
    done = subprocess.run([*command, "-o", str(file)], check=False, stdout=subprocess.PIPE)
    if not file.exists():
        sys.exit(f"profiling failed:\n{done.stdout.decode(errors='replace')}")
    return load_profile(file)


def setting_of(stored: StoredProfile, options: argparse.Namespace) -> Setting:
    """Fit the profile and read its acceptance."""
    evidence = evidence_from_profile(stored.profile, stored.arrays)
    accepted = profile_acceptance(evidence, TEMPERATURE, None, options.length)
    if accepted is None:
        sys.exit("The profile traced no acceptance; use --length 0.")
    return Setting(stored, evidence, options.length, options.places, accepted)
