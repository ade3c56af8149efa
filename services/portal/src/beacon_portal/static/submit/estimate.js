// The estimate next to the form: number of runs, expected wait, price of skipping, remaining limits.

import { formatDuration } from "../clock.js";
import { el } from "../dom.js";
import { facts } from "../components.js";
import { poll } from "../follow.js";
import { count } from "../labels.js";
import { priceOf } from "../prices.js";

const POLL_INTERVAL_S = 5;
const FACTS = [
  ["runs", "Runs"], ["wait", "Expected wait"], ["price", "Price"], ["skip", "To skip the queue"],
  ["pending", "Queue places left"], ["hour", "Jobs left this hour"], ["credit", "Credit"],
];

export function submitEstimate({ api, refreshAccount, session, signal }) {
  const shown = facts(FACTS);
  shown.node.classList.add("single-column");
  const node = el("div", { class: "stack" }, el("h2", {}, "Estimate"), shown.node);
  let states = [];
  let prices = [];
  let size = { runs: 0, breakdown: "", seconds: 0 };
  let models = [];

  function show() {
    const wait = expected(states, models);
    const { limits = {}, credit } = session.me ?? {};
    shown.update({
      runs: size.breakdown === "one run" ? "1" : `${size.runs.toLocaleString()} (${size.breakdown})`,
      wait: wait === null ? null : wait < 1 ? "none" : `about ${formatDuration(Math.ceil(wait))}`,
      price: "free",
      skip: prices.length && size.runs ? count(priceOf(prices, size.seconds), "credit") : null,
      pending: left(limits.pending_jobs),
      hour: left(limits.jobs_per_hour),
      credit: credit === undefined || credit === null ? null : count(credit, "credit"),
    });
  }

  async function load() {
    const [{ regions }] = await Promise.all([api.get("api/v1/regions", { signal }), refreshAccount()]);
    states = regions.map(({ state }) => state).filter(Boolean);
    show();
  }

  api.get("api/v1/skip-pricing", { signal }).then((pricing) => { prices = pricing.prices; show(); }, () => {});
  const refresh = poll(POLL_INTERVAL_S, signal, load);
  return { node, refresh, update: (nextSize, nextModels) => { size = nextSize; models = nextModels; show(); } };
}

/** Seconds until every model has a GPU in some region, by the router's estimates; null when unknown. */
function expected(states, models) {
  const waits = models.map((model) => Math.min(...states.map(({ estimated_wait: wait }) => wait[model]?.p50_s ?? Infinity)));
  const known = waits.filter(Number.isFinite);
  return known.length ? Math.max(0, ...known) : null;
}

function left(limit) {
  if (!limit) return null;
  return limit.limit === null ? "no limit" : `${Math.max(0, limit.left)} of ${limit.limit}`;
}
