// The reasons why a job waits, and which of its executions wait at the router.

import { path } from "../api.js";
import { el, setAttr, setText } from "../dom.js";
import { panel } from "../components.js";
import { poll } from "../follow.js";
import { LIVE_STATES, count } from "../labels.js";

const POLL_INTERVAL_S = 3;
const MAX_REASONS = 6;
const WAITING = { queued: "waiting", warming: "the model is loading", backoff: "waiting for a retry" };

/** `refresh()` fetches a new snapshot, `changed()` shows the known state again. */
export function waitingPanel({ api, signal }, state, { refresh, changed }) {
  const summary = el("p");
  const more = el("ul", { class: "reasons" });
  const node = panel("Why is it waiting?", summary, more);
  node.hidden = true;
  const isLive = () => LIVE_STATES.has(state.view.status);

  const checkNow = poll(POLL_INTERVAL_S, signal, async () => {
    if (!isLive()) return;
    const why = await api.get(path`api/v1/jobs/${state.view.job_id}/why`, { signal });
    const waiting = (why.executions ?? []).filter(({ state: where }) => where in WAITING);
    setText(summary, why.summary);
    more.replaceChildren(...reasonsOf(why, waiting).map((reason) => el("li", {}, reason)));
    setAttr(node, "hidden", !isLive() || !why.summary || (why.status === "processing" && waiting.length === 0));
    state.atRouter = new Map(waiting.map((one) => [one.execution_id, one.state]));
    const moved = Number.isInteger(why.jobs_ahead) && why.jobs_ahead + 1 !== state.view.position;
    if (moved || state.isBehind(why)) refresh();
    else changed();
  });

  let status = state.view.status;
  const update = (view) => {
    if (!isLive()) setAttr(node, "hidden", true);
    if (view.status !== status) checkNow();
    status = view.status;
  };
  return { node, update };
}

/** Executions at the router are listed per model and region, not one by one. */
function reasonsOf({ reasons = [] }, waiting) {
  if (waiting.length === 0) return truncated(reasons);
  const groups = Map.groupBy(waiting, ({ model, region }) => `${model} in ${region}`);
  return truncated([...groups].map(([target, group]) => {
    const first = group[0];
    return `${target}: ${count(group.length, "execution")}, ${first.waiting_for ?? WAITING[first.state]}`;
  }));
}

function truncated(reasons) {
  if (reasons.length <= MAX_REASONS) return reasons;
  return [...reasons.slice(0, MAX_REASONS - 1), `and ${reasons.length - MAX_REASONS + 1} more`];
}
