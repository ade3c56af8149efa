// Where inference runs: depth, slots, loaded models and breakers, with a short history of each region.

import { Spark } from "../chart.js";
import { span } from "../clock.js";
import { Rows, attr, el, table, write } from "../dom.js";
import { attempt, badge, empty, facts, notice, pageHead, panel } from "../parts.js";
import { poll } from "../stream.js";

const EVERY_S = 2;
const FACTS = [["waiting", "Waiting"], ["running", "Running"], ["retry", "To retry"], ["completed", "Completed"], ["failed", "Failed"]];

export function regionsView({ api, signal }) {
  const said = notice();
  const cards = el("div", { class: "panels" });
  const rows = new Rows(cards, regionCard);
  const caps = table("Shared caps", ["Group", ["In use", "number"], ["Cap", "number"]]);
  const capRows = new Rows(caps.body, capRow);
  const capPanel = panel("Shared caps", caps.node);
  const retry = el("p", { class: "muted" });
  const nothing = empty("Waiting for the router…");
  capPanel.hidden = true;

  poll(EVERY_S, signal, async () => {
    const status = await attempt(said, () => api.get("api/v1/regions", { signal }), "The state of the regions");
    rows.show(status.regions, (region) => region.name);
    const groups = Object.values(status.groups ?? {});
    capRows.show(groups, (group) => group.name);
    attr(capPanel, "hidden", groups.length === 0);
    nothing.remove();
    write(retry, status.global_retry ? `${status.global_retry} waiting to be retried in any region` : "");
  });

  const node = el("div", {}, pageHead("Regions", retry), said.node, nothing, cards, capPanel);
  return { title: "Regions", node };
}

function regionCard(region) {
  const depth = new Spark("Waiting");
  const busy = new Spark("Running");
  const shown = facts(FACTS);
  const backends = el("ul", { class: "backends" });
  const rows = new Rows(backends, backendRow);
  const waits = el("p", { class: "muted" });
  const charts = el("div", { class: "sparks" }, figure("Waiting", depth.node), figure("Running", busy.node));
  const live = el("div", {}, shown.node, charts);
  const node = panel(region.name, live, waits, backends);
  const update = ({ state }) => {
    for (const part of [live, backends]) attr(part, "hidden", !state);
    if (!state) {
      write(waits, "No router answers for this region.");
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
    write(waits, waitWords(state.estimated_wait ?? {}, state.main));
    rows.show(state.backends, (backend) => backend.name);
  };
  return { node, update };
}

function figure(caption, chart) {
  return el("figure", {}, el("figcaption", { class: "muted" }, caption), chart);
}

function waitWords(waits, ahead) {
  const longest = Object.entries(waits).toSorted((a, b) => b[1].p50_s - a[1].p50_s)[0];
  if (!longest || longest[1].p50_s < 1) return `A new request would start ${ahead ? "within a second" : "at once"}.`;
  const [usual, most] = [longest[1].p50_s, longest[1].p90_s].map((seconds) => span(Math.ceil(seconds)));
  return `Longest wait: ${longest[0]}, about ${usual} (at most ${most} in 9 of 10 cases).`;
}

function backendRow(backend) {
  const breaker = badge(backend.breaker.state);
  const slots = el("span", { class: "slots", role: "img" });
  const use = el("small", { class: "muted number" });
  const loaded = el("div", { class: "chips" });
  const models = new Rows(loaded, (model) => ({ node: el("span", { class: "chip" }, model), update: () => {} }));
  const note = el("small", { class: "muted" });
  const node = el("li", {}, el("div", { class: "head-row" }, el("h3", {}, backend.name), breaker.node),
    el("div", { class: "with-bar" }, slots, use), loaded, note);
  const update = (next) => {
    breaker.update(next.breaker.state);
    showSlots(slots, next.busy, next.slots);
    write(use, `${next.busy} of ${next.slots} slots${next.group ? ` · ${next.group}` : ""}`);
    models.show(next.loaded_models, (model) => model);
    attr(loaded, "hidden", next.loaded_models.length === 0);
    const probe = next.breaker.probe_in_s;
    write(note, probe === null || probe === undefined ? "" : `Next probe in ${span(Math.ceil(probe))}`);
    attr(note, "hidden", !note.textContent);
  };
  return { node, update };
}

function showSlots(node, busy, total) {
  const shown = Math.min(total, 32);
  while (node.childElementCount < shown) node.append(el("i"));
  while (node.childElementCount > shown) node.lastElementChild.remove();
  [...node.children].forEach((slot, index) => attr(slot, "data-busy", index < busy));
  attr(node, "aria-label", `${busy} of ${total} slots busy`);
}

function capRow(group) {
  const name = el("th", { scope: "row" }, group.name);
  const used = el("td", { class: "number" });
  const cap = el("td", { class: "number" });
  const update = (next) => { write(used, next.used); write(cap, next.cap); };
  return { node: el("tr", {}, name, used, cap), update };
}
