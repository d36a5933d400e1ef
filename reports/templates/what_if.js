"use strict";
/* The controls of the page: reads the inputs, asks capplanWhatIf, writes the answer. */
(() => {
  const plan = JSON.parse(document.getElementById("plan").textContent);
  const WIDE = 10; // between its ends, from which each end of an interval has its own precision

  const decimals = (value, figures) =>
    value === 0 ? 0 : Math.min(8, Math.max(0, figures - 1 - Math.floor(Math.log10(Math.abs(value)))));
  // Halves up on the number as it prints, as Python's side does.
  const rounded = (value, places) => Number(`${Math.round(Number(`${value}e${places}`))}e-${places}`);
  const fixed = (value, places) =>
    (Math.abs(value) < 1e-6 ? value : rounded(value, places)).toLocaleString("en-US", {
      minimumFractionDigits: places,
      maximumFractionDigits: places,
    });
  const moneyPlaces = (usd) => (Math.abs(usd) >= 1000 ? 0 : Math.max(2, decimals(usd, 2)));
  const money = (usd) => fixed(usd, moneyPlaces(usd));
  // What is less than the whole is never shown as the whole.
  const percent = (share) => {
    const size = Math.abs(share * 100);
    const below = [0, 1, 2, 3, 4, 5, 6, 7, 8].find((places) => rounded(size, places) < 100);
    const places = size > 0 && size < 1 ? 1 : size < 100 ? below : 0;
    return `${fixed(share * 100, places ?? 0)} %`;
  };

  function interval({ low, mid, high }, places, unit) {
    const own = low > 0 && high / low > WIDE;
    const end = (value) => fixed(value, own ? decimals(value, 2) : places);
    const ends = end(low) === end(high) ? "" : ` (${end(low)}-${end(high)})`;
    return `${fixed(mid, places)}${unit}${ends}`;
  }

  function milliseconds(value) {
    if (value.mid < 1000) return interval(value, decimals(value.mid, 2), " ms");
    const seconds = { low: value.low / 1000, mid: value.mid / 1000, high: value.high / 1000 };
    return interval(seconds, decimals(seconds.mid, 2), " s");
  }

  const FIGURES = {
    month: (found) => interval(found.usdPerMonth, moneyPlaces(found.usdPerMonth.mid), " USD"),
    million: (found) => interval(found.usdPerMillion, moneyPlaces(found.usdPerMillion.mid), " USD"),
    replicas: (found) => `${fixed(found.replicas, 0)} (${fixed(found.gpus, 0)} rented)`,
    tpot: (found) => milliseconds(found.tpotMs),
    speedup: (found) => interval(found.speedup, 2, "x"),
    concurrency: (found) => fixed(Math.max(found.concurrency, 1), 0),
    utilisation: (found) => percent(found.utilisationAtPeak),
  };

  function saving(mine, other) {
    const share = 1 - mine / other;
    if (Math.abs(share) < 0.005) return "costs the same";
    return share > 0 ? `${percent(share)} cheaper` : `${percent(-share)} dearer`;
  }

  function sentence(found, plain, today) {
    if (found === null) return "No batch keeps the limit on the time per output token: nothing to run.";
    const parts = [`${money(found.usdPerMonth.mid)} USD a month`];
    if (plain) {
      const compared = saving(found.usdPerMillion.mid, plain.usdPerMillion.mid);
      parts.push(`${compared} a token than without speculation`.replace("same a token than", "same a token as"));
    }
    if (today > 0) {
      const less = today - found.usdPerMonth.mid;
      parts.push(`${money(Math.abs(less))} USD ${less >= 0 ? "less" : "more"} than today`);
    }
    parts.push(found.withinBudget ? "within the budget" : "over the budget");
    return `${parts.join("; ")}.`;
  }

  function wire(section) {
    const rank = Number(section.dataset.whatIf);
    const option = plan.options[rank - 1];
    const whole = capplanWhatIf.wholeOf(plan, option);
    if (whole === null) return;
    const comparing = section.dataset.compared !== undefined;
    const plainFleet = comparing ? capplanWhatIf.fleetOf(plan, baselineOf(option)) : null;
    const knobs = [...section.querySelectorAll("[data-knob]")];
    const today = section.querySelector("[data-today]");

    function settings() {
      const chosen = {};
      for (const knob of knobs) {
        // The number shown is rounded: left alone, it stands for the plan's exact value.
        const asPlanned = knob.value === knob.defaultValue;
        const planned = Number(knob.dataset.planned);
        const value = asPlanned ? planned : Number(knob.value);
        const valid = asPlanned || (value > 0 && value <= Number(knob.max || Infinity));
        knob.setAttribute("aria-invalid", String(!valid));
        if (!valid) continue;
        const { knob: name } = knob.dataset;
        chosen[name] = name === "utilisation" ? value / 100 : value / planned;
      }
      return chosen;
    }

    function show() {
      const chosen = settings();
      const found = capplanWhatIf.answerWhole(whole, chosen);
      const plain = plainFleet && capplanWhatIf.answer(plainFleet, { ...chosen, acceptance: 1 });
      for (const [name, text] of Object.entries(FIGURES)) {
        fill(`now-${name}`, found, text);
        fill(`plain-${name}`, plain, text);
      }
      const inputs = [...section.querySelectorAll("input[type=number]")];
      const changed = inputs.some((input) => input.value !== input.defaultValue);
      section.toggleAttribute("data-changed", changed);
      section.querySelector("[data-answer]").textContent = sentence(found, plain, Number(today.value));
    }

    function fill(name, found, text) {
      const cell = section.querySelector(`[data-cell="${name}"]`);
      if (cell) cell.textContent = found ? text(found) : "none";
    }

    for (const knob of knobs) {
      const slider = section.querySelector(`[data-slider="${knob.dataset.knob}"]`);
      knob.addEventListener("input", () => {
        slider.value = knob.value;
        show();
      });
      slider.addEventListener("input", () => {
        knob.value = String(Number(Number(slider.value).toPrecision(3)));
        show();
      });
    }
    today.addEventListener("input", show);
    section.querySelector("[data-reset]").addEventListener("click", () => {
      for (const input of section.querySelectorAll("input")) input.value = input.defaultValue;
      show();
    });
    section.hidden = false;
    show();
  }

  function baselineOf(option) {
    if (plan.baseline && plan.baseline.target === option.target) return plan.baseline;
    return plan.options.find((other) => other.method === "none" && other.target === option.target);
  }

  document.querySelectorAll("[data-what-if]").forEach(wire);
})();
