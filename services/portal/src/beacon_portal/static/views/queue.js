// The queue: waiting and running jobs in queue order.

import { path } from "../api.js";
import { KeyedRows, el, select, setAttr, setText, table } from "../dom.js";
import { badge, createNotice, emptyNote, facts, pageHeader, reportErrors } from "../components.js";
import { poll } from "../follow.js";
import { sentenceCase } from "../labels.js";

const POLL_INTERVAL_S = 2;
const MAX_ROWS = 200;

export function queueView({ api, signal }) {
  const notice = createNotice();
  const tier = select([["", "Any tier"]], {});
  const model = el("input", { type: "search", placeholder: "Any model", autocomplete: "off" });
  const totals = facts([["total", "Active jobs"], ["running", "Running"], ["waiting", "Waiting"], ["shown", "Shown"]]);
  const list = table("Queue", [["Position", "number"], "Job", "State", "Model", ["Tier", "wide-only"], ["Progress", "wide-only"]]);
  const rows = new KeyedRows(list.body, queueRow);
  const nothing = emptyNote("No waiting or running jobs.");
  let jobs = [];
  let total = 0;

  function show() {
    const wanted = model.value.trim().toLowerCase();
    const matches = (job) => (!tier.value || job.priority === tier.value) && String(job.model ?? "").toLowerCase().includes(wanted);
    const shown = jobs.filter(matches);
    const running = jobs.filter((job) => job.status === "processing").length;
    rows.show(shown.slice(0, MAX_ROWS), (job) => job.id);
    totals.update({ total, running, waiting: Math.max(0, total - running), shown: shown.length === total ? null : shown.length });
    setAttr(nothing, "hidden", shown.length > 0);
    setAttr(list.node, "hidden", shown.length === 0);
  }

  async function load() {
    if (tier.options.length === 1) {
      const { tiers } = await api.get("api/v1/tiers", { signal });
      tier.append(...tiers.map(({ name }) => new Option(sentenceCase(name), name)));
    }
    return api.get("api/queue", { signal });
  }

  for (const control of [tier, model]) control.addEventListener("input", show);
  poll(POLL_INTERVAL_S, signal, async () => {
    const queue = await reportErrors(notice, load, "The queue");
    jobs = queue.jobs;
    total = queue.total ?? jobs.length;
    setAttr(content, "hidden", false);
    show();
  });

  const filters = el("div", { class: "filters", role: "group", "aria-label": "Filters" },
    el("label", {}, el("span", {}, "Tier"), tier), el("label", {}, el("span", {}, "Model"), model));
  const content = el("div", { hidden: true }, el("section", { class: "panel", "aria-label": "Totals" }, totals.node),
    el("div", { class: "gap" }), filters, nothing, list.node);
  const node = el("div", {}, pageHeader("Queue"), notice.node, content);
  return { title: "Queue", node };
}

function queueRow(job) {
  const position = el("td", { class: "number" });
  const label = job.mine ? el("a", { href: `#/${path`jobs/${job.id}`}` }, job.id) : job.id;
  const name = el("th", { scope: "row", class: "mono" }, label);
  const state = badge(job.status);
  const model = el("td");
  const tier = el("td", { class: "wide-only" });
  const progress = el("td", { class: "wide-only" });
  const node = el("tr", { "data-mine": Boolean(job.mine) }, position, name, el("td", {}, state.node), model, tier, progress);
  const update = (next) => {
    setText(position, next.position ?? "–");
    state.update(next.status);
    setText(model, next.model ?? "–");
    setText(tier, sentenceCase(next.priority));
    setText(progress, next.progress ?? "");
  };
  return { node, update };
}
