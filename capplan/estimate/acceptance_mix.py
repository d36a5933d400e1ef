"""Acceptance of a mix of tasks, temperatures and thinking."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from capplan.estimate.curves import AcceptanceCurve
from capplan.schema.provenance import Source, weakest
from capplan.schema.workload import TrafficPart, Workload

Floats = NDArray[np.float64]

_ROUNDED = 0.015
"""By how much stated shares may miss 1: three thirds of 0.33 do by 0.01."""


def curve_of_mix(
    workload: Workload, curve_of: Callable[[TrafficPart], AcceptanceCurve | None]
) -> AcceptanceCurve | None:
    """Return the acceptance of a workload's mix; None if that of a part is not known.

    Parameters
    ----------
    workload
        Without a mix, its one task and temperature.
    curve_of
        Acceptance of one part.

    Notes
    -----
    Tokens a round of the mix are all its tokens over all its rounds. A part that emits the share
    ``w`` of the tokens at ``tau`` tokens a round needs ``w / tau`` rounds a token, so the mix has
    ``1 / sum(w / tau)``: the harmonic mean, weighted by tokens. The arithmetic mean would count
    the rounds of the part that is accepted least too few times.
    """
    if not workload.mix:
        part = TrafficPart(share=1.0, task=workload.task, temperature=workload.temperature)
        return curve_of(part)
    curves = []
    for part in workload.mix:
        curve = curve_of(part)
        if curve is None:
            return None
        curves.append(curve)
    return mixed(curves, token_shares(workload), workload.mix)


def token_shares(workload: Workload) -> Floats:
    """Return each part's share of the output tokens: share of requests times output length."""
    weights = np.array(
        [part.share * (part.output_tokens or workload.output_tokens) for part in workload.mix]
    )
    result: Floats = weights / weights.sum()
    return result


def shares_in_proportion(workload: Workload) -> str:
    """Return words on a mix whose shares are not parts of one whole; empty if they are."""
    total = sum(part.share for part in workload.mix)
    if not workload.mix or abs(total - 1.0) <= _ROUNDED:
        return ""
    return f"the shares of the mix add up to {total:.3g}, not to 1: they are put in proportion"


def mixed(
    curves: Sequence[AcceptanceCurve], token_share: Floats, parts: Sequence[TrafficPart]
) -> AcceptanceCurve:
    """Mix curves by their shares of the tokens.

    Errors of the parts are added, not drawn apart: they come from the same draft, source and
    rule, so they err together. A part counts in them by its share of the rounds.
    """
    weight = token_share[:, None]
    tau = np.stack([curve.tokens_per_round for curve in curves])
    rounds = weight / tau
    share_of_rounds = rounds / rounds.sum(axis=0)
    error = np.stack([curve.relative_se for curve in curves])
    draft_share = np.stack([curve.draft_share for curve in curves])
    with_draft = share_of_rounds * draft_share
    drafted = np.stack([curve.drafted for curve in curves])
    drafts = with_draft.sum(axis=0)
    sampling = {curve.draft_sampling for curve in curves}
    return AcceptanceCurve(
        tokens_per_round=1.0 / rounds.sum(axis=0),
        relative_se=(share_of_rounds * error).sum(axis=0),
        definition=_definition(curves, token_share, parts),
        source=_source(curves),
        draft_share=drafts,
        drafted=np.divide(
            (with_draft * drafted).sum(axis=0), drafts, out=np.zeros_like(drafts), where=drafts > 0
        ),
        draft_sampling=curves[0].draft_sampling if len(sampling) == 1 else None,
    )


def part_words(part: TrafficPart) -> str:
    """Return a part in words: ``code at temperature 0.2, thinking``."""
    words = f"{part.task or 'any task'} at temperature {part.temperature:g}"
    if part.thinking is None:
        return words
    return f"{words}, {'thinking' if part.thinking else 'not thinking'}"


def _definition(
    curves: Sequence[AcceptanceCurve], token_share: Floats, parts: Sequence[TrafficPart]
) -> str:
    shares = "; ".join(
        f"{share:.0%} {part_words(part)}" for share, part in zip(token_share, parts, strict=True)
    )
    each = "; ".join(dict.fromkeys(curve.definition for curve in curves))
    return f"all tokens over all rounds of a mix by tokens ({shares}); each part: {each}"


def _source(curves: Sequence[AcceptanceCurve]) -> Source:
    sources = [curve.source for curve in curves]
    dates = [source.date for source in sources if source.date]
    return Source(
        kind=weakest(*(source.kind for source in sources)),
        reference="; ".join(dict.fromkeys(source.reference for source in sources)),
        date=max(dates, default=None),
    )
