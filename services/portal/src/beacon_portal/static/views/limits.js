// Limits: what the user's tier allows, and what is left of it.

import { formatDuration } from "../clock.js";
import { KeyedRows, el, setText, table } from "../dom.js";
import { createNotice, facts, pageHeader, panel, reportErrors } from "../components.js";
import { poll } from "../follow.js";
import { formatBytes, sentenceCase } from "../labels.js";

const POLL_INTERVAL_S = 5;
const NO_LIMIT = "no limit";
const LABELS = {
  pending_jobs: "Unfinished jobs",
  jobs_per_hour: "Jobs per hour",
  in_flight_executions: "Unfinished executions",
  gpu_seconds_per_day: "GPU seconds per day (UTC)",
  requests_per_minute: "API requests per minute (/v1)",
  concurrent_requests: "Concurrent API requests (/v1)",
  streams: "Open event streams",
  storage_bytes: "Storage",
};
const FACTS = [["tier", "Tier"], ["duration", "Longest duration"], ["executions", "Executions per job"], ["models", "Models"]];

export function limitsView({ refreshAccount, signal }) {
  const notice = createNotice();
  const use = table("Use", ["Limit", ["Used", "number"], ["Allowed", "number"], ["Left", "number"], "More in"]);
  const rows = new KeyedRows(use.body, useRow);
  const perRequest = facts(FACTS);

  poll(POLL_INTERVAL_S, signal, async () => {
    const me = await reportErrors(notice, refreshAccount, "The limits");
    rows.show(Object.entries(me.limits), ([name]) => name);
    perRequest.update({
      tier: sentenceCase(me.tier),
      duration: isNone(me.max_duration_s) ? NO_LIMIT : formatDuration(me.max_duration_s),
      executions: isNone(me.executions_per_job) ? NO_LIMIT : me.executions_per_job.toLocaleString(),
      models: me.models?.length ? me.models.join(", ") : "all",
    });
  });

  const node = el("div", {}, pageHeader("Limits"), notice.node, panel("Use", use.node), panel("In one job or request", perRequest.node));
  return { title: "Limits", node };
}

function useRow([name]) {
  const cells = { used: el("td", { class: "number" }), limit: el("td", { class: "number" }), left: el("td", { class: "number" }), reset: el("td", {}) };
  const shown = (value) => (name === "storage_bytes" ? formatBytes(value) : value.toLocaleString());
  const update = ([, next]) => {
    setText(cells.used, isNone(next.used) ? "–" : shown(next.used));
    setText(cells.limit, isNone(next.limit) ? NO_LIMIT : shown(next.limit));
    setText(cells.left, isNone(next.left) ? "–" : shown(next.left));
    setText(cells.reset, isNone(next.resets_in_s) ? "" : formatDuration(Math.ceil(next.resets_in_s)));
  };
  return { node: el("tr", {}, el("th", { scope: "row" }, LABELS[name] ?? sentenceCase(name)), ...Object.values(cells)), update };
}

function isNone(value) {
  return value === null || value === undefined;
}
