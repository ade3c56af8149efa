// The queue explorer: what waits and what runs, in the order in which it will be served.

import { path } from "../api.js";
import { Rows, attr, choice, el, table, write } from "../dom.js";
import { attempt, badge, empty, facts, notice, pageHead, panel } from "../parts.js";
import { poll } from "../stream.js";
import { titled } from "../words.js";

const EVERY_S = 2;
const MOST = 200;
const TIERS = ["admin", "creator", "premium", "supporter", "free"];

export function queueView({ api, signal }) {
  const said = notice();
  const tier = choice([["", "Any tier"], ...TIERS.map((name) => [name, titled(name)])], {});
  const model = el("input", { type: "search", placeholder: "Any model", autocomplete: "off" });
  const sums = facts([["total", "Jobs alive"], ["running", "Running"], ["waiting", "Waiting"], ["shown", "Shown"]]);
  const list = table("Queue", [["Position", "number"], "Job", "State", "Model", ["Tier", "roomy"], ["Progress", "roomy"]]);
  const rows = new Rows(list.body, queueRow);
  const nothing = empty("Nothing waits and nothing runs.");
  let jobs = [];
  let total = 0;

  function show() {
    const wanted = model.value.trim().toLowerCase();
    const matches = (job) => (!tier.value || job.priority === tier.value) && String(job.model ?? "").toLowerCase().includes(wanted);
    const shown = jobs.filter(matches);
    const running = jobs.filter((job) => job.status === "processing").length;
    rows.show(shown.slice(0, MOST), (job) => job.id);
    sums.update({ total, running, waiting: Math.max(0, total - running), shown: shown.length === total ? null : shown.length });
    attr(nothing, "hidden", shown.length > 0);
    attr(list.node, "hidden", shown.length === 0);
  }

  for (const control of [tier, model]) control.addEventListener("input", show);
  poll(EVERY_S, signal, async () => {
    const queue = await attempt(said, () => api.get("api/queue", { signal }), "The queue explorer");
    jobs = queue.jobs;
    total = queue.total ?? jobs.length;
    attr(found, "hidden", false);
    show();
  });

  const filters = el("div", { class: "filters", role: "group", "aria-label": "Filters" },
    el("label", {}, el("span", {}, "Tier"), tier), el("label", {}, el("span", {}, "Model"), model));
  const found = el("div", { hidden: true }, el("section", { class: "panel", "aria-label": "Sums" }, sums.node),
    el("div", { class: "gap" }), filters, nothing, list.node);
  const node = el("div", {}, pageHead("Queue"), said.node, found);
  return { title: "Queue", node };
}

function queueRow(job) {
  const position = el("td", { class: "number" });
  const label = job.mine ? el("a", { href: `#/${path`jobs/${job.id}`}` }, job.id) : job.id;
  const name = el("th", { scope: "row", class: "mono" }, label);
  const state = badge(job.status);
  const model = el("td");
  const tier = el("td", { class: "roomy" });
  const progress = el("td", { class: "roomy" });
  const node = el("tr", { "data-mine": Boolean(job.mine) }, position, name, el("td", {}, state.node), model, tier, progress);
  const update = (next) => {
    write(position, next.position ?? "–");
    state.update(next.status);
    write(model, next.model ?? "–");
    write(tier, titled(next.priority));
    write(progress, next.progress ?? "");
  };
  return { node, update };
}
