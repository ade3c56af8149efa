// The queues as they are now, and the switch that stops and starts each class.

import { Spark } from "../chart.js";
import { span } from "../clock.js";
import { Rows, el, table, write } from "../dom.js";
import { actionButton, attempt, badge, confirmed, facts, notice, panel } from "../parts.js";
import { path } from "../api.js";
import { poll } from "../stream.js";
import { titled } from "../words.js";

const EVERY_S = 2;
const LANES = 30;
const FACTS = [
  ["main", "Waiting"], ["retry", "To retry"], ["dead", "Dead"], ["leases", "Leases"], ["outbox", "Outbox"],
  ["lag", "Outbox lag"], ["oldest", "Oldest waits"],
];

export function runtimePart({ api, shell, signal }) {
  const said = notice();
  const shown = facts(FACTS);
  const depth = new Spark("Waiting");
  const classes = table("Classes", ["Class", ["Waiting", "number"], ["Paid front", "number roomy"], "State", ["Action", "hushed"]]);
  const classRows = new Rows(classes.body, (row) => classRow(row, toggle));
  const lanes = table("Lanes", ["Lane", "Class", ["Pending", "number"], ["Running", "number"]]);
  const laneRows = new Rows(lanes.body, laneRow);

  async function toggle({ name, paused }) {
    if (!paused && !(await confirmed({
      title: `Pause class ${name}?`, action: "Pause",
      text: "Jobs of this class keep being accepted and wait. What runs now goes on to its end.",
    }))) return;
    try {
      await api.post(path`admin/queues/${name}/${paused ? "resume" : "pause"}`);
      shell.announce(`Class ${name} ${paused ? "resumed" : "paused"}`);
    } catch (error) {
      said.fail(error);
    }
    refresh();
  }

  const refresh = poll(EVERY_S, signal, async () => {
    const stats = await attempt(said, () => api.get("admin/runtime/stats", { signal }), "Runtime statistics");
    shown.update({
      main: stats.main, retry: stats.retry, dead: stats.dead, leases: stats.leases, outbox: stats.outbox?.pending,
      lag: stats.outbox ? span(stats.outbox.lag_s) : null, oldest: stats.oldest_age_s === null ? null : span(stats.oldest_age_s),
    });
    depth.add(stats.main);
    classRows.show(stats.classes, (row) => row.name);
    const busiest = stats.lanes.toSorted((a, b) => b.pending + b.running - a.pending - a.running).slice(0, LANES);
    laneRows.show(busiest, (row) => `${row.class} ${row.lane}`);
  });

  return el("div", {}, said.node,
    el("section", { class: "panel stack", "aria-label": "Sums" }, shown.node, depth.node),
    el("div", { class: "panels" }, panel("Classes", classes.node), panel("Busiest lanes", lanes.node)));
}

function classRow(row, toggle) {
  let current = row;
  const waiting = el("td", { class: "number" });
  const front = el("td", { class: "number roomy" });
  const state = badge("running");
  const button = actionButton("", () => toggle(current), { class: "small" });
  const node = el("tr", {}, el("th", { scope: "row" }, titled(row.name)), waiting, front,
    el("td", {}, state.node), el("td", { class: "number" }, button));
  const update = (next) => {
    current = next;
    write(waiting, next.waiting);
    write(front, next.front);
    state.update(next.paused ? "paused" : "consuming");
    write(button, next.paused ? "Resume" : "Pause");
  };
  return { node, update };
}

function laneRow(row) {
  const pending = el("td", { class: "number" });
  const running = el("td", { class: "number" });
  const name = el("th", { scope: "row", class: "mono" }, row.lane);
  const node = el("tr", {}, name, el("td", {}, titled(row.class)), pending, running);
  return { node, update: (next) => { write(pending, next.pending); write(running, next.running); } };
}
