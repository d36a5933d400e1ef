"use strict";
/* What one option of the embedded plan costs at another price, load, acceptance or utilisation.

   The arithmetic is that of capplan.planning (pricing.cost_of, pricing.concurrency_at,
   grid.with_tokens) and capplan.economics (cost.replicas_for, cost.nodes_needed): functions bear
   the same names, and a test holds the results of both against each other. Times in ms, rates in
   output tokens a second, money in USD. */
globalThis.capplanWhatIf = (() => {
  const MS_PER_S = 1000;
  const SECONDS_PER_HOUR = 3600;
  const TOKENS_PER_MILLION = 1e6;
  const ROUNDING = 1e-9; // a load of exactly n replicas must not become n + 1 by a division
  const BUDGET_ROUNDING = 1e-12; // a budget of exactly n nodes must not buy n - 1
  const LEAST_WEIGHT = 1e-6;

  /* Prompts of others add k * (batch - 1) to a token. With a plain step d and a speedup s the plan
     has tpot = d / s + k * (batch - 1) and plain = d + k * (batch - 1): where s is far from 1 the
     two give k. */
  function interferencePerOther(curve) {
    let most = LEAST_WEIGHT;
    let found = 0;
    for (const { batch, tpotMs, plainMs, speedup } of curve) {
      const weight = Math.abs(1 - 1 / speedup) * (batch - 1);
      if (weight <= most) continue;
      most = weight;
      const stepMs = (plainMs - tpotMs) / (1 - 1 / speedup);
      found = Math.max((plainMs - stepMs) / (batch - 1), 0);
    }
    return found;
  }

  /* What a request's own prompt takes of the replica, a token: no part of the time per token, but of
     the rate. Zero in plan files of older versions, which left it out. */
  function promptShare({ concurrency, output_tokens_per_s: rate, tpot_ms: tpot }) {
    return Math.max((concurrency * MS_PER_S) / rate.mid - tpot.mid, 0);
  }

  function energyPerGpuHour(bill) {
    const lines = bill.lines.filter((line) => line.item === "electricity");
    const usd = lines.reduce((sum, line) => sum + line.usd, 0);
    return usd / (bill.gpus_paid * bill.paid_hours);
  }

  /* Everything of an option that the arithmetic needs; null where the plan file lacks it. */
  function fleetOf(plan, option) {
    if (!option || !option.bill || option.load_curve.length === 0) return null;
    const { bill, acceptance } = option;
    const { workload, slo } = plan.request;
    const curve = option.load_curve
      .map((point) => ({
        batch: point.concurrency,
        tpotMs: point.tpot_ms.mid,
        plainMs: point.baseline_tpot_ms,
        speedup: point.speedup.mid,
        promptMs: promptShare(point),
      }))
      .sort((one, other) => one.batch - other.batch);
    const atPeak = option.utilisation_at_peak ?? option.utilisation;
    const peakToMean = atPeak / option.utilisation;
    const { output_tokens_per_s: rate, tpot_ms: tpot, speedup } = option;
    return {
      curve,
      interferenceMs: interferencePerOther(curve),
      tokensPerRound: acceptance ? acceptance.tokens_per_round.mid : 1,
      mostTokensPerRound: option.num_speculative_tokens + 1,
      gpusPerReplica: option.tensor_parallel,
      gpusPerNode: bill.gpus_per_node,
      sharesNode: bill.nodes === null,
      rentPerGpuHour: bill.usd_per_node_hour / bill.gpus_per_node,
      energyPerGpuHour: energyPerGpuHour(bill),
      paidHours: bill.paid_hours,
      servingHours: bill.serving_hours,
      hasLoad: workload.requests_per_s !== null || workload.output_tokens_per_month !== null,
      peakTokensPerS: option.planned_output_tokens_per_s * peakToMean,
      peakToMean,
      utilisation: workload.utilisation,
      budget: plan.request.budget_usd_per_month,
      tpotLimitMs: slo.tpot_ms ?? Infinity,
      mostRequests: slo.ttft_ms === null ? Infinity : option.max_concurrency,
      rateEnds: [rate.low / rate.mid, rate.high / rate.mid],
      timeEnds: [tpot.low / tpot.mid, tpot.high / tpot.mid],
      speedupEnds: [speedup.low / speedup.mid, speedup.high / speedup.mid],
    };
  }

  /* All that the plan pays for with this option: the option itself; of services on replicas of their
     own every part, with this option as the largest. Null where the plan file lacks one of them. */
  function wholeOf(plan, option) {
    const parts = plan.fleet?.ways[0]?.parts ?? [];
    if (parts.length < 2) return fleetOf(plan, option);
    const largest = parts.reduce((most, part) => (part.usd_per_month.mid > most.usd_per_month.mid ? part : most));
    const fleets = parts.map((part) => {
      const service = plan.request.services.find(({ name }) => part.services.includes(name));
      if (!service) return null;
      const request = { ...plan.request, slo: part.slo, workload: service.workload };
      return fleetOf({ request }, part === largest ? option : part.planned);
    });
    if (fleets.includes(null)) return null;
    const { utilisation } = fleets[parts.indexOf(largest)];
    return { parts: fleets, utilisation, budget: plan.fleet.budget_usd_per_month };
  }

  /* The curve at another acceptance: what a round costs stays as it is. */
  function withTokens(fleet, acceptance) {
    const { curve, interferenceMs, tokensPerRound, mostTokensPerRound } = fleet;
    const wanted = 1 + (tokensPerRound - 1) * acceptance;
    const tokens = Math.min(Math.max(wanted, 1), mostTokensPerRound);
    const gain = tokens / tokensPerRound;
    return curve.map(({ batch, tpotMs, speedup, promptMs }) => {
      const others = interferenceMs * (batch - 1);
      const ms = gain === 1 ? tpotMs : (tpotMs - others) / gain + others;
      return { batch, tpotMs: ms, speedup: speedup * gain, rate: (batch * MS_PER_S) / (ms + promptMs) };
    });
  }

  /* The batch of the largest throughput that the limits allow; -1 for none. */
  function largestBatch(fleet, points) {
    let best = -1;
    points.forEach(({ batch, tpotMs, rate }, at) => {
      const allowed = tpotMs <= fleet.tpotLimitMs && batch <= fleet.mostRequests;
      if (allowed && (best < 0 || rate > points[best].rate)) best = at;
    });
    return best;
  }

  function replicasFor(tokensPerS, rate, utilisation) {
    return Math.max(Math.ceil(tokensPerS / (rate * utilisation) - ROUNDING), 1);
  }

  /* As many whole nodes as the budget rents, and one at least: what there is where no load is given. */
  function replicasWithin(fleet, perGpuHour) {
    const [gpus, perNode] = fleet.sharesNode
      ? [fleet.gpusPerReplica, 1]
      : [fleet.gpusPerNode, Math.floor(fleet.gpusPerNode / fleet.gpusPerReplica)];
    const nodeUsd = gpus * perGpuHour * fleet.paidHours;
    const nodes = Math.floor((fleet.budget / nodeUsd) * (1 + BUDGET_ROUNDING));
    return Math.max(nodes, 1) * perNode;
  }

  function gpusPaid(fleet, replicas) {
    if (fleet.sharesNode) return replicas * fleet.gpusPerReplica;
    const perNode = Math.floor(fleet.gpusPerNode / fleet.gpusPerReplica);
    return Math.ceil(replicas / perNode) * fleet.gpusPerNode;
  }

  /* Where the throughput of a replica meets its load (Little's law). Straight between two batches
     is the time a token takes, batch / rate. */
  function concurrencyAt(points, largest, tokensPerS) {
    let highest = 0;
    const curve = points.map(({ rate }) => (highest = Math.max(highest, rate)));
    const last = points.length - 1;
    const most = points[largest].batch;
    if (last === 0) return most;
    const reached = curve.filter((rate) => rate <= tokensPerS).length;
    const below = Math.min(Math.max(reached - 1, 0), last - 1);
    const [low, high] = [curve[below], curve[below + 1]];
    const [one, other] = [points[below].batch, points[below + 1].batch];
    const slope = (other / high - one / low) / (other - one);
    const between = (tokensPerS * (one / low - slope * one)) / (1 - tokensPerS * slope);
    const met = tokensPerS >= high ? other : tokensPerS <= low ? one : between;
    return Math.min(Math.max(met, points[0].batch), most);
  }

  function atConcurrency(points, concurrency, value) {
    if (points.length === 1) return value(points[0]);
    const reached = points.filter(({ batch }) => batch <= concurrency).length;
    const below = Math.min(Math.max(reached - 1, 0), points.length - 2);
    const [low, high] = [points[below], points[below + 1]];
    const share = (concurrency - low.batch) / (high.batch - low.batch);
    return value(low) + share * (value(high) - value(low));
  }

  /* One option at other settings, each a factor on the plan's own but the utilisation, a share;
     null where no batch keeps the limit. */
  function answer(fleet, { price = 1, load = 1, acceptance = 1, utilisation = fleet.utilisation }) {
    const points = withTokens(fleet, acceptance);
    const largest = largestBatch(fleet, points);
    if (largest < 0) return null;
    const { rate } = points[largest];
    const perHour = fleet.rentPerGpuHour * price + fleet.energyPerGpuHour;
    const month = (replicas) => gpusPaid(fleet, replicas) * perHour * fleet.paidHours;
    const peak = fleet.peakTokensPerS * load;
    const needed = (factor) => replicasFor(peak, rate * factor, utilisation);
    const replicas = fleet.hasLoad ? needed(1) : replicasWithin(fleet, perHour);
    const planned = fleet.hasLoad ? peak : rate * replicas * utilisation;
    const seconds = fleet.servingHours * SECONDS_PER_HOUR;
    const perDollar = TOKENS_PER_MILLION / ((planned / fleet.peakToMean) * seconds);
    const usd = month(replicas);
    const [cheap, dear] = fleet.hasLoad
      ? [Math.min(month(needed(fleet.rateEnds[1])), usd), Math.max(month(needed(fleet.rateEnds[0])), usd)]
      : [usd, usd];
    const concurrency = concurrencyAt(points, largest, planned / replicas);
    const spread = (mid, [low, high]) => ({ low: mid * low, mid, high: mid * high });
    return {
      replicas,
      gpus: gpusPaid(fleet, replicas),
      concurrency,
      utilisationAtPeak: planned / (rate * replicas),
      usdPerMonth: { low: cheap, mid: usd, high: dear },
      usdPerMillion: fleet.hasLoad
        ? { low: cheap * perDollar, mid: usd * perDollar, high: dear * perDollar }
        : spread(usd * perDollar, fleet.timeEnds),
      tpotMs: spread(atConcurrency(points, concurrency, (point) => point.tpotMs), fleet.timeEnds),
      speedup: spread(atConcurrency(points, concurrency, (point) => point.speedup), fleet.speedupEnds),
      withinBudget: usd <= fleet.budget * (1 + ROUNDING),
    };
  }

  /* Every part at the same settings: dollars, replicas and tokens add up, a time is that of the
     slowest part. The utilisation is that of the largest part; others keep their distance to it. */
  function answerWhole(whole, chosen) {
    if (!whole.parts) return answer(whole, chosen);
    const shift = (chosen.utilisation ?? whole.utilisation) / whole.utilisation;
    const found = whole.parts.map((part) =>
      answer(part, { ...chosen, utilisation: Math.min(part.utilisation * shift, 1) }),
    );
    return found.includes(null) ? null : together(found, whole.budget);
  }

  function together(found, budget) {
    const sum = (value) => found.reduce((total, one) => total + value(one), 0);
    const most = (value) => Math.max(...found.map(value));
    const month = (end) => sum((one) => one.usdPerMonth[end]);
    const millions = sum((one) => one.usdPerMonth.mid / one.usdPerMillion.mid);
    const usdPerMonth = { low: month("low"), mid: month("mid"), high: month("high") };
    const { low, mid, high } = usdPerMonth;
    return {
      replicas: sum((one) => one.replicas),
      gpus: sum((one) => one.gpus),
      utilisationAtPeak: most((one) => one.utilisationAtPeak),
      usdPerMonth,
      usdPerMillion: { low: low / millions, mid: mid / millions, high: high / millions },
      tpotMs: found.map((one) => one.tpotMs).reduce((slow, one) => (one.mid > slow.mid ? one : slow)),
      withinBudget: mid <= budget * (1 + ROUNDING),
    };
  }

  return { answer, answerWhole, fleetOf, wholeOf };
})();
