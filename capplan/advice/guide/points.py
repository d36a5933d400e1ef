"""The guide's rules in a few words, the same for plans and profiles."""

from __future__ import annotations

from dataclasses import dataclass

from capplan.schema.audit import GuidePoint, GuideTopic, PointState

LENGTH = 5
"""The guide's length for every pairing and load."""
ENABLE_TO, OFF_ABOVE = 0.7, 1.0
"""Temperatures between which the guide leaves open whether to speculate."""
LEAST_ACCEPTANCE = 0.6
LOW_SPEEDUP = 1.5
LARGE_PARAMS = 100e9
CODE_OR_TRANSLATION = (
    *("code", "coding", "humaneval", "mbpp", "livecodebench"),
    *("translation", "translate", "wmt"),
)
MATHS = ("math", "gsm", "aime", "maths")


@dataclass(frozen=True)
class GuideRule:
    """One rule of the guide."""

    id: str
    topic: GuideTopic
    text: str

    def point(self, state: PointState, says: str) -> GuidePoint:
        """Return the rule applied."""
        return GuidePoint(id=self.id, topic=self.topic, rule=self.text, state=state, says=says)

    def kept_if(self, kept: bool, says: str) -> GuidePoint:
        """Return the rule as kept or not kept."""
        return self.point(PointState.KEPT if kept else PointState.NOT_KEPT, says)

    def aside(self, says: str) -> GuidePoint:
        """Return the rule as one that does not apply."""
        return self.point(PointState.DOES_NOT_APPLY, says)

    def applies(self, says: str) -> GuidePoint:
        """Return the row of the troubleshooting table whose symptom is there."""
        return self.point(PointState.APPLIES, says)


_CHECK, _TROUBLE = GuideTopic.CHECKLIST, GuideTopic.TROUBLESHOOTING

SAME_FAMILY = GuideRule("same-family", _CHECK, "draft of the same family")
UNIVERSAL_N = GuideRule("n5", _CHECK, f"N = {LENGTH} is the universal optimum")
COOL = GuideRule("temperature-on", _CHECK, f"speculate up to temperature {ENABLE_TO:g}")
HOT = GuideRule("temperature-off", _CHECK, f"switch off above temperature {OFF_ABOVE:g}")
BLOCK_MANAGER = GuideRule("v2-block-manager", _CHECK, "use-v2-block-manager on")
ACCEPTANCE = GuideRule(
    "acceptance", _CHECK, f"replace the draft below {LEAST_ACCEPTANCE * 100:.0f} % acceptance"
)
CODE_FIRST = GuideRule("code-translation", _CHECK, "translation and code first")
MATHS_CAREFULLY = GuideRule("maths", _CHECK, "maths with care: little to gain")
EAGLE = GuideRule("eagle", _CHECK, "EAGLE gains another 20 %")
LEVELS = GuideRule("levels", _CHECK, "several levels above 100B parameters")

SLOW = GuideRule("slow", _TROUBLE, f"speedup below {LOW_SPEEDUP:g}x: draft of another family")
MEMORY = GuideRule("memory", _TROUBLE, "out of memory: lower the draft's tensor parallelism")
FIRST_TOKEN = GuideRule("first-token", _TROUBLE, "slow first token: preload the draft")
QUALITY = GuideRule("quality", _TROUBLE, "worse output: use the V2 block manager")

NO_FLAG = (
    'vLLM has no such flag any more: 0.33 stops at it with "unrecognized arguments". Leave it out.'
)
EVIDENCE_ON_TASKS = (
    "Of six tasks Spec-Bench finds translation slowest in most of its tables, maths fastest most "
    "often (capplan claims --topic tasks); measure your own prompts."
)


def is_about(task: str | None, words: tuple[str, ...]) -> bool:
    """Return whether a task's name speaks of one of these subjects."""
    return task is not None and any(word in task.lower() for word in words)


def levels(params: float | None) -> GuidePoint:
    """Apply the rule on several levels of drafts to a target of this size."""
    if params is None or params <= LARGE_PARAMS:
        size = "of unknown size" if params is None else f"has {params / 1e9:.3g}B parameters"
        return LEVELS.aside(f"The target {size}; no engine runs several levels in any case.")
    return LEVELS.kept_if(
        False,
        f"The target has {params / 1e9:,.0f}B parameters, yet vLLM runs one draft an engine: "
        "its own MTP layers or an EAGLE-3 head are what large targets are published with.",
    )
