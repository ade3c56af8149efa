// Usage: GPU seconds per day as bars, and the sums per model, region, key or tag.

import { query } from "../api.js";
import { KeyedRows, button, el, field, select, setAttr, setText, table } from "../dom.js";
import { actionButton, createNotice, emptyNote, facts, pageHeader, panel, reportErrors } from "../components.js";
import { BarChart } from "../chart.js";
import { formatBytes } from "../labels.js";
import { saveBlob } from "../media/files.js";

const DAY_MS = 86_400_000;
const GROUPS = [["model", "Model"], ["region", "Region"], ["key", "Key"], ["tag", "Tag"]];
const PERIODS = [["7", "7 days"], ["30", "30 days"], ["90", "90 days"]];
const TOTALS = [["gpu", "GPU seconds"], ["runs", "Runs"], ["failed", "Failed"], ["tokens", "Tokens in / out"], ["output", "Output"]];

export function usageView({ api, session, signal }) {
  const notice = createNotice();
  const group = select(GROUPS, { value: "model", onchange: load });
  const period = select(PERIODS, { value: "30", onchange: load });
  const everyone = el("input", { type: "checkbox", onchange: load });
  const chart = new BarChart("GPU seconds per day");
  const totals = facts(TOTALS);
  const head = ["Group", ["Runs", "number"], ["Failed", "number wide-only"], ["GPU seconds", "number"], ["Queue seconds", "number wide-only"],
    ["Tokens in / out", "number wide-only"], ["Output", "number wide-only"]];
  const list = table("Usage by group", head);
  const rows = new KeyedRows(list.body, usageRow);
  const nothing = emptyNote("Nothing has run in this period.");

  let loads = 0;

  async function load() {
    loads += 1;
    const current = loads;
    const start = dayStart(Date.now()) - (Number(period.value) - 1) * DAY_MS;
    const [days, groups] = await reportErrors(notice, () => Promise.all([fetchRows("day", start), fetchRows(group.value, start)]), "Usage");
    if (current !== loads) return; // another choice was made meanwhile
    setAttr(nothing, "hidden", groups.length > 0);
    setAttr(list.node, "hidden", groups.length === 0);
    chart.show(perDay(days, start, Number(period.value)));
    totals.update(totalOf(days));
    rows.show(groups.toSorted((one, other) => other.gpu_seconds - one.gpu_seconds), nameOf);
  }

  async function fetchRows(by, start) {
    return (await api.get(address(by, start), { signal })).rows;
  }

  function address(by, start, format) {
    const of = everyone.checked ? "admin/usage" : "api/v1/usage";
    return of + query({ group_by: by, from: new Date(start).toISOString(), format });
  }

  async function download() {
    const start = dayStart(Date.now()) - (Number(period.value) - 1) * DAY_MS;
    try {
      const response = await api.open(`${address("day", start, "csv")}&group_by=${group.value}`, { signal });
      saveBlob(await response.blob(), "usage.csv");
    } catch (error) {
      notice.showError(error);
    }
  }

  load().catch(() => {}); // the notice shows the error
  const ofAll = session.isAdmin ? el("label", { class: "check" }, everyone, "All users") : null;
  const node = el("div", {}, pageHeader("Usage"), notice.node,
    el("div", { class: "filters" }, field("Group by", group), field("Period", period), ofAll,
      actionButton("Download CSV", download, { class: "small" }), button("Refresh", () => load().catch(() => {}), { class: "small quiet" })),
    panel("GPU seconds per day", chart.node), panel("In this period", totals.node),
    el("div", { class: "gap" }), nothing, list.node);
  return { title: "Usage", node };
}

function dayStart(at) {
  return at - (at % DAY_MS); // days are those of UTC
}

/** A bar for every day, also for those without use. */
function perDay(rows, start, days) {
  const seconds = new Map(rows.map((row) => [Date.parse(row.period), row.gpu_seconds]));
  return Array.from({ length: days }, (_, index) => {
    const day = start + index * DAY_MS;
    return { label: new Date(day).toISOString().slice(0, 10), value: seconds.get(day) ?? 0 };
  });
}

function totalOf(rows) {
  const sum = (name) => rows.reduce((total, row) => total + row[name], 0);
  return {
    gpu: formatSeconds(sum("gpu_seconds")),
    runs: sum("runs").toLocaleString(),
    failed: sum("failed").toLocaleString(),
    tokens: `${sum("tokens_in").toLocaleString()} / ${sum("tokens_out").toLocaleString()}`,
    output: formatBytes(sum("output_bytes")),
  };
}

function nameOf(row) {
  return row.model ?? row.region ?? row.key_id ?? row.tag ?? "(none)";
}

function formatSeconds(seconds) {
  return seconds.toLocaleString(undefined, { maximumFractionDigits: 1 });
}

function usageRow(first) {
  const names = ["runs", "failed", "gpu", "queue", "tokens", "output"];
  const wide = new Set(["failed", "queue", "tokens", "output"]);
  const cells = Object.fromEntries(names.map((name) => [name, el("td", { class: wide.has(name) ? "number wide-only" : "number" })]));
  const update = (row) => {
    setText(cells.runs, row.runs.toLocaleString());
    setText(cells.failed, row.failed.toLocaleString());
    setText(cells.gpu, formatSeconds(row.gpu_seconds));
    setText(cells.queue, formatSeconds(row.queue_seconds));
    setText(cells.tokens, `${row.tokens_in.toLocaleString()} / ${row.tokens_out.toLocaleString()}`);
    setText(cells.output, formatBytes(row.output_bytes));
  };
  return { node: el("tr", {}, el("th", { scope: "row" }, nameOf(first)), ...Object.values(cells)), update };
}
