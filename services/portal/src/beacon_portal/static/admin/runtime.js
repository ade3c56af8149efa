// Queue statistics, and pausing and resuming a class.

import { Sparkline } from "../chart.js";
import { formatDuration } from "../clock.js";
import { KeyedRows, el, setText, table } from "../dom.js";
import { actionButton, badge, confirmAction, createNotice, facts, panel, reportErrors } from "../components.js";
import { path } from "../api.js";
import { poll } from "../follow.js";
import { sentenceCase } from "../labels.js";

const POLL_INTERVAL_S = 2;
const MAX_LANES = 30;
const FACTS = [
  ["main", "Waiting"], ["retry", "Awaiting retry"], ["dead", "Dead letters"], ["leases", "Leases"], ["outbox", "Outbox"],
  ["lag", "Outbox lag"], ["oldest", "Oldest job"],
];

export function runtimePart({ api, shell, signal }) {
  const notice = createNotice();
  const shown = facts(FACTS);
  const depth = new Sparkline("Waiting");
  const classes = table("Classes", ["Class", ["Waiting", "number"], ["Skipped ahead", "number wide-only"], "State", ["Action", "header-hidden"]]);
  const classRows = new KeyedRows(classes.body, (row) => classRow(row, toggle));
  const lanes = table("Lanes", ["Lane", "Class", ["Pending", "number"], ["Running", "number"]]);
  const laneRows = new KeyedRows(lanes.body, laneRow);

  async function toggle({ name, paused }) {
    if (!paused && !(await confirmAction({
      title: `Pause class ${name}?`, action: "Pause",
      text: "New jobs of this class are accepted and wait. Running jobs continue to their end.",
    }))) return;
    try {
      await api.post(path`admin/queues/${name}/${paused ? "resume" : "pause"}`);
      shell.announce(`Class ${name} ${paused ? "resumed" : "paused"}`);
    } catch (error) {
      notice.showError(error);
    }
    refresh();
  }

  const refresh = poll(POLL_INTERVAL_S, signal, async () => {
    const stats = await reportErrors(notice, () => api.get("admin/runtime/stats", { signal }), "Runtime statistics");
    shown.update({
      main: stats.main, retry: stats.retry, dead: stats.dead, leases: stats.leases, outbox: stats.outbox?.pending,
      lag: stats.outbox ? formatDuration(stats.outbox.lag_s) : null, oldest: stats.oldest_age_s === null ? null : formatDuration(stats.oldest_age_s),
    });
    depth.add(stats.main);
    classRows.show(stats.classes, (row) => row.name);
    const busiest = stats.lanes.toSorted((a, b) => b.pending + b.running - a.pending - a.running).slice(0, MAX_LANES);
    laneRows.show(busiest, (row) => `${row.class} ${row.lane}`);
  });

  return el("div", {}, notice.node,
    el("section", { class: "panel stack", "aria-label": "Totals" }, shown.node, depth.node),
    el("div", { class: "panels" }, panel("Classes", classes.node), panel("Busiest lanes", lanes.node)));
}

function classRow(row, toggle) {
  let current = row;
  const waiting = el("td", { class: "number" });
  const front = el("td", { class: "number wide-only" });
  const state = badge("running");
  const button = actionButton("", () => toggle(current), { class: "small" });
  const node = el("tr", {}, el("th", { scope: "row" }, sentenceCase(row.name)), waiting, front,
    el("td", {}, state.node), el("td", { class: "number" }, button));
  const update = (next) => {
    current = next;
    setText(waiting, next.waiting);
    setText(front, next.front);
    state.update(next.paused ? "paused" : "consuming");
    setText(button, next.paused ? "Resume" : "Pause");
  };
  return { node, update };
}

function laneRow(row) {
  const pending = el("td", { class: "number" });
  const running = el("td", { class: "number" });
  const name = el("th", { scope: "row", class: "mono" }, row.lane);
  const node = el("tr", {}, name, el("td", {}, sentenceCase(row.class)), pending, running);
  return { node, update: (next) => { setText(pending, next.pending); setText(running, next.running); } };
}
