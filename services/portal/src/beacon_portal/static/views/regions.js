// Regions: queue depth, slots, loaded models and circuit breakers, with a short history.

import { Sparkline } from "../chart.js";
import { formatDuration } from "../clock.js";
import { KeyedRows, el, setAttr, setText, table } from "../dom.js";
import { badge, createNotice, emptyNote, facts, pageHeader, panel, reportErrors } from "../components.js";
import { poll } from "../follow.js";
import { sentenceCase } from "../labels.js";

const POLL_INTERVAL_S = 2;
const FACTS = [["waiting", "Waiting"], ["running", "Running"], ["retry", "Awaiting retry"], ["completed", "Completed"], ["failed", "Failed"]];

export function regionsView({ api, signal }) {
  const notice = createNotice();
  const cards = el("div", { class: "panels" });
  const rows = new KeyedRows(cards, regionCard);
  const limits = table("Shared limits", ["Group", ["In use", "number"], ["Limit", "number"]]);
  const limitRows = new KeyedRows(limits.body, limitRow);
  const limitPanel = panel("Shared limits", limits.node);
  const retry = el("p", { class: "muted" });
  const nothing = emptyNote("Waiting for the router…");
  limitPanel.hidden = true;

  poll(POLL_INTERVAL_S, signal, async () => {
    const status = await reportErrors(notice, () => api.get("api/v1/regions", { signal }), "The state of the regions");
    rows.show(status.regions, (region) => region.name);
    const groups = Object.values(status.groups ?? {});
    limitRows.show(groups, (group) => group.name);
    setAttr(limitPanel, "hidden", groups.length === 0);
    nothing.remove();
    setText(retry, status.global_retry ? `${status.global_retry} waiting for a retry in any region` : "");
  });

  const node = el("div", {}, pageHeader("Regions", retry), notice.node, nothing, cards, limitPanel);
  return { title: "Regions", node };
}

function regionCard(region) {
  const depth = new Sparkline("Waiting");
  const busy = new Sparkline("Running");
  const shown = facts(FACTS);
  const backends = el("ul", { class: "backends" });
  const rows = new KeyedRows(backends, backendRow);
  const waits = el("p", { class: "muted" });
  const charts = el("div", { class: "sparklines" }, figure("Waiting", depth.node), figure("Running", busy.node));
  const live = el("div", {}, shown.node, charts);
  const node = panel(region.name, live, waits, backends);
  const update = ({ state }) => {
    for (const part of [live, backends]) setAttr(part, "hidden", !state);
    if (!state) {
      setText(waits, "No router serves this region at the moment.");
      return;
    }
    shown.update({
      waiting: state.main,
      running: `${state.busy} of ${state.concurrency}`,
      retry: state.retry || null,
      completed: state.completed.toLocaleString(),
      failed: state.failed.toLocaleString(),
    });
    depth.add(state.main);
    busy.add(state.busy);
    setText(waits, waitText(state.estimated_wait ?? {}, state.main));
    rows.show(state.backends, (backend) => backend.name);
  };
  return { node, update };
}

function figure(caption, chart) {
  return el("figure", {}, el("figcaption", { class: "muted" }, caption), chart);
}

function waitText(waits, ahead) {
  const longest = Object.entries(waits).toSorted((a, b) => b[1].p50_s - a[1].p50_s)[0];
  if (!longest || longest[1].p50_s < 1) return `A new request would start ${ahead ? "within a second" : "immediately"}.`;
  const [usual, most] = [longest[1].p50_s, longest[1].p90_s].map((seconds) => formatDuration(Math.ceil(seconds)));
  return `Longest wait: ${longest[0]}, about ${usual} (at most ${most} in 9 of 10 cases).`;
}

function backendRow(backend) {
  const breaker = badge(backend.breaker.state);
  const slots = el("span", { class: "slots", role: "img" });
  const use = el("small", { class: "muted number" });
  const loaded = el("div", { class: "chips" });
  const models = new KeyedRows(loaded, (model) => ({ node: el("span", { class: "chip" }, model), update: () => {} }));
  const note = el("small", { class: "muted" });
  const node = el("li", {}, el("div", { class: "head-row" }, el("h3", {}, backend.name), breaker.node),
    el("div", { class: "with-bar" }, slots, use), loaded, note);
  const update = (next) => {
    breaker.update(next.breaker.state);
    showSlots(slots, next.busy, next.slots);
    setText(use, `${next.busy} of ${next.slots} slots${next.group ? ` · ${next.group}` : ""}`);
    models.show(next.loaded_models, (model) => model);
    setAttr(loaded, "hidden", next.loaded_models.length === 0);
    const probe = next.breaker.probe_in_s;
    const nextProbe = probe === null || probe === undefined ? "" : `Next probe in ${formatDuration(Math.ceil(probe))}.`;
    const cause = next.breaker.cause ? `${sentenceCase(next.breaker.cause)}.` : "";
    setText(note, [cause, nextProbe].filter(Boolean).join(" "));
    setAttr(note, "hidden", !note.textContent);
  };
  return { node, update };
}

function showSlots(node, busy, total) {
  const shown = Math.min(total, 32);
  while (node.childElementCount < shown) node.append(el("i"));
  while (node.childElementCount > shown) node.lastElementChild.remove();
  for (const [index, slot] of [...node.children].entries()) setAttr(slot, "data-busy", index < busy);
  setAttr(node, "aria-label", `${busy} of ${total} slots busy`);
}

function limitRow(group) {
  const name = el("th", { scope: "row" }, group.name);
  const used = el("td", { class: "number" });
  const cap = el("td", { class: "number" });
  const update = (next) => { setText(used, next.used); setText(cap, next.cap); };
  return { node: el("tr", {}, name, used, cap), update };
}
