"""Launch text for an engine version."""

from __future__ import annotations

from capplan.deploy.vllm import context_limit, launch_command, unsupported_reason

__all__ = ["context_limit", "launch_command", "unsupported_reason"]
