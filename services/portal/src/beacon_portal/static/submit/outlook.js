// What submitting now means: how much work it is, what is left of the limits, how long it will wait, what skipping costs.

import { span } from "../clock.js";
import { el } from "../dom.js";
import { facts } from "../parts.js";
import { poll } from "../stream.js";
import { count } from "../words.js";
import { priceOf } from "../prices.js";

const EVERY_S = 5;
const FACTS = [
  ["runs", "Runs"], ["wait", "Expected wait"], ["price", "Price"], ["skip", "To go first"],
  ["pending", "Jobs you may still queue"], ["hour", "Left this hour"], ["credit", "Credit"],
];

export function outlook({ api, refreshAccount, session, signal }) {
  const shown = facts(FACTS);
  shown.node.classList.add("tall");
  const node = el("div", { class: "stack" }, el("h2", {}, "Before you submit"), shown.node);
  let states = [];
  let prices = [];
  let current = [{ runs: 0, words: "", seconds: 0 }, []];

  function show() {
    const [size, models] = current;
    const wait = expected(states, models);
    const { limits = {}, credit } = session.me ?? {};
    shown.update({
      runs: size.words === "one run" ? "1" : `${size.runs.toLocaleString()} (${size.words})`,
      wait: wait === null ? null : wait < 1 ? "none" : `about ${span(Math.ceil(wait))}`,
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
  const refresh = poll(EVERY_S, signal, load);
  return { node, refresh, update: (...next) => { current = next; show(); } };
}

/** Until the last of the models has a GPU somewhere, as the router expects it; null when nobody knows. */
function expected(states, models) {
  const waits = models.map((model) => Math.min(...states.map(({ estimated_wait: wait }) => wait[model]?.p50_s ?? Infinity)));
  const known = waits.filter(Number.isFinite);
  return known.length ? Math.max(0, ...known) : null;
}

function left(limit) {
  if (!limit) return null;
  return limit.limit === null ? "no limit" : `${Math.max(0, limit.left)} of ${limit.limit}`;
}
