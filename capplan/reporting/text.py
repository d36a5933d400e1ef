"""A plan for the terminal: plain text, one sentence first, about 100 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

from capplan.reporting.api_view import CAVEAT
from capplan.reporting.appendix import short_lines
from capplan.reporting.formatting import printable
from capplan.reporting.money_view import MoneyView
from capplan.reporting.option_view import OptionView
from capplan.reporting.services_text import launches_of_parts, services_lines
from capplan.reporting.view import Finalist, LengthBand, PlanView, build_view
from capplan.schema.plan import Plan

WIDTH = 100
_ALTERNATIVES = 6
_ASSUMPTIONS = 10
_APIS = 4
_MARKED = "  * spot, reserved, community or marketplace: each at its own price, see --format csv"
_UTILISATIONS = (0.1, 0.2, 0.5, 1.0)
_TEXT_COLUMNS = 4
_CELL_WIDTH = 33


def render_text(plan: Plan) -> str:
    """Return the plan as text that ends with a newline; no colour, no control characters."""
    view = build_view(plan)
    best = view.finalists[0] if view.finalists else None
    sections = (
        _wrap(view.sentence, hanging=0),
        _best(best) if best else _needed(view),
        _else(view, best),
        _bill(best.money if best else None),
        _services(plan),
        _alternatives(view),
        _apis(view),
        _rejections(view),
        _assumptions(view),
        _bullets("Advice", view.advice),
        short_lines(plan.guide_checklist),
        _launch(best, plan),
        [f"Next: {view.next_command}"],
    )
    blocks = ["\n".join(lines) for lines in sections if lines]
    return printable("\n\n".join(blocks)) + "\n"


def _needed(view: PlanView) -> list[str]:
    return _wrap(f"Needed: {view.needed}") if view.needed else []


def _best(finalist: Finalist) -> list[str]:
    option = finalist.option
    price = f"{option.hardware}, {option.offer} {option.gpu_hour} ({option.price_date})"
    return [
        *_wrap(f"{price}: {option.usd_per_month} a month{_idle(finalist)}", indent=2),
        *_wrap(_money_line(finalist), indent=2),
        *_wrap(_latency_line(option), indent=2),
        *_wrap(_trust_line(option), indent=2),
        *(line for warning in option.warnings for line in _wrap(f"Mind: {warning}", indent=2)),
    ]


def _money_line(finalist: Finalist) -> str:
    best = finalist.option
    line = f"{best.usd_per_million} per million output tokens at {best.utilisation} utilisation"
    if finalist.saving and finalist.baseline:
        plain = finalist.baseline.usd_per_million_short
        said = finalist.saving.replace("costs the same", "the same")
        line += f"; without speculation {plain}: {said}"
    return line


def _idle(finalist: Finalist) -> str:
    money = finalist.money
    return f", {money.idle} of it for idle {finalist.option.units}" if money and money.idle else ""


def _bill(money: MoneyView | None) -> list[str]:
    if money is None:
        return []
    upfront = f"; {money.upfront} USD of the term on the first day" if money.upfront else ""
    shown = [row for row in money.utilisation if row.planned or row.share in _UTILISATIONS]
    by_use = " · ".join(f"{row.utilisation} {row.usd_per_million}" for row in shown)
    return [
        "The month's bill:",
        *_wrap(f"{money.sum_text}{upfront}", indent=2),
        *_wrap(f"A million output tokens by utilisation: {by_use}", indent=2),
    ]


def _apis(view: PlanView) -> list[str]:
    lines: list[str] = []
    for api in view.apis[:_APIS]:
        lines += _wrap(
            f"- {api.api}: {api.inequality}: {api.outcome}; equal at {api.crossing}", indent=2
        )
    more = len(view.apis) - _APIS
    if more > 0:
        lines.append(f"  and {more} more; --format json lists them all")
    return ["The month's bill beside an API's:", *lines, *_wrap(CAVEAT, indent=2)] if lines else []


def _latency_line(best: OptionView) -> str:
    return (
        f"TPOT {best.tpot}{_limit(best.tpot_limit)}; TTFT {best.ttft}{_limit(best.ttft_limit)}; "
        f"{best.concurrency} request{'' if best.concurrency == '1' else 's'} at once a replica, "
        f"room for {best.max_concurrency}"
    )


def _limit(limit: str) -> str:
    return f", limit {limit}" if limit else ""


def _trust_line(best: OptionView) -> str:
    line = f"Trust: step time {best.tier}: {best.tier_note}"
    if best.acceptance_source:
        line += f"; {best.tokens_per_round} tokens a round, {best.acceptance_source}"
    return f"{line.rstrip('.')}."


def _else(view: PlanView, best: Finalist | None) -> list[str]:
    lines = _wrap(f"Also: {' · '.join(_also(view, best))}")
    for other in view.finalists[1:]:
        lines += _wrap(_other_target(other))
    if best and best.bands:
        lines += _wrap(f"Length by load: {_bands_text(best.bands)}")
    if best and best.guide:
        lines += _wrap(
            f"Guide's formula says {best.guide.guide_speedup}, calibrated {best.guide.speedup}: "
            f"{best.guide.reason}."
        )
    return lines


def _also(view: PlanView, best: Finalist | None) -> Iterable[str]:
    if best and view.cheapest and view.cheapest.rank != 1:
        yield f"cheapest {view.cheapest.usd_per_month_short} ({view.cheapest.offer})"
    if best and best.baseline and best.option.speculates:
        yield f"no speculation {best.baseline.usd_per_month_short} a month"
    yield "1 candidate" if view.candidates == "1" else f"{view.candidates} candidates"
    yield f"{view.rejected_total} rejected{_reasons_text(view)}"


def _other_target(other: Finalist) -> str:
    option = other.option
    return (
        f"Best for {option.target}: {option.title}, {option.hardware}, {option.offer}: "
        f"{option.usd_per_month_short} a month, {option.usd_per_million} per million output "
        f"tokens, {option.speedup} (step time {option.tier})"
    )


def _reasons_text(view: PlanView) -> str:
    reasons = ", ".join(f"{item.count} {item.reason}" for item in view.rejections)
    return f" ({reasons})" if reasons else ""


def _bands_text(bands: Sequence[LengthBand]) -> str:
    parts = []
    for band in bands:
        length = "no speculation" if band.is_off else f"N = {band.length}"
        loads = band.first if band.first == band.last else f"{band.first}-{band.last}"
        gain = "" if band.is_off else f" ({band.speedup})"
        parts.append(f"{length} at {loads}{gain}")
    return "; ".join(parts) + " requests at once a replica"


def _alternatives(view: PlanView) -> list[str]:
    shown = view.options[:_ALTERNATIVES]
    if len(shown) <= 1:
        return []
    rows = [
        (
            f"{option.rank}{'' if option.plain_offer else '*'}",
            option.pair,
            option.length,
            f"{option.gpus}, {option.provider}",
            option.usd_per_month_short.removesuffix(" USD"),
            option.usd_per_million_short.removesuffix(" USD"),
            option.tpot.partition(" (")[0],
            option.speedup.partition(" (")[0],
        )
        for option in shown
    ]
    offer = f"{view.hardware_units}, offer"
    more = len(view.options) - len(shown)
    tail = [f"  and {more} more; --format csv lists them all"] if more else []
    return [
        f"Options, best first ({len(view.options)} within the limits):",
        *_table(("", "Option", "N", offer, "USD/month", "USD/M out", "TPOT", "Speedup"), rows),
        *tail,
        *([_MARKED] if any(not option.plain_offer for option in shown) else []),
    ]


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Align columns: text (the first four) to the left, figures to the right."""
    cut = [[_cut(cell, _CELL_WIDTH) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[column]) for row in cut) for column in range(len(header))]
    lines = (
        "  ".join(
            cell.ljust(width) if column < _TEXT_COLUMNS else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cut
    )
    return [f"  {line.rstrip()}" for line in lines]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _rejections(view: PlanView) -> list[str]:
    lines: list[str] = []
    for item in view.rejections:
        example, remedy = item.example.rstrip("."), item.remedy.rstrip(".")
        lines += _wrap(f"- {item.count} {item.label}: {example}. To mend: {remedy}.", indent=2)
    return ["Rejected:", *lines] if lines else []


def _assumptions(view: PlanView) -> list[str]:
    lines: list[str] = []
    for item in view.assumptions[:_ASSUMPTIONS]:
        lines += _wrap(f"- {item.name}: {item.value} [{item.kind_label}: {item.source}]", indent=2)
    more = len(view.assumptions) - _ASSUMPTIONS
    if more > 0:
        lines.append(f"  and {more} more; --format json lists them all")
    return ["Rests on:", *lines] if lines else []


def _bullets(title: str, items: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for item in items:
        lines += _wrap(f"- {item}", indent=2)
    return [f"{title}:", *lines] if lines else []


def _services(plan: Plan) -> list[str]:
    return [
        line
        for text in services_lines(plan.fleet)
        for line in _wrap(text.strip(), indent=len(text) - len(text.lstrip()))
    ]


def _launch(best: Finalist | None, plan: Plan) -> list[str]:
    parts = launches_of_parts(plan.fleet)
    if best is None or not (parts or best.option.launch):
        return []
    texts = [(f"Launch {part.label}:", part.launch) for part in parts]
    texts = texts or [("Launch:", best.option.launch)]
    lines = [[head, *(f"  {line}" for line in text.splitlines())] for head, text in texts]
    return [line for block in lines for line in block]


def _wrap(text: str, *, indent: int = 0, hanging: int = 2) -> list[str]:
    return textwrap.wrap(
        text,
        width=WIDTH,
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent + hanging),
        break_long_words=False,
        break_on_hyphens=False,
    )
