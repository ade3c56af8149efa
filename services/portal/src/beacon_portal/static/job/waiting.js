// Why the job waits, in words, for as long as it does; and which of its executions wait at the router.

import { path } from "../api.js";
import { attr, el, write } from "../dom.js";
import { panel } from "../parts.js";
import { poll } from "../stream.js";
import { LIVE, count } from "../words.js";

const EVERY_S = 3;
const REASONS = 6;
const WAITING = { queued: "waiting", warming: "the model is loading", backoff: "waiting to be tried again" };

/** `refresh()` asks for a new snapshot, `changed()` shows what is known already. */
export function waitingPanel({ api, signal }, state, { refresh, changed }) {
  const words = el("p");
  const more = el("ul", { class: "reasons" });
  const node = panel("Why is it waiting?", words, more);
  node.hidden = true;
  const lives = () => LIVE.has(state.view.status);

  const ask = poll(EVERY_S, signal, async () => {
    if (!lives()) return;
    const why = await api.get(path`api/v1/jobs/${state.view.job_id}/why`, { signal });
    const waiting = (why.executions ?? []).filter(({ state: where }) => where in WAITING);
    write(words, why.summary);
    more.replaceChildren(...reasonsOf(why, waiting).map((reason) => el("li", {}, reason)));
    attr(node, "hidden", !lives() || !why.summary || (why.status === "processing" && waiting.length === 0));
    state.atRouter = new Map(waiting.map((one) => [one.execution_id, one.state]));
    const moved = Number.isInteger(why.jobs_ahead) && why.jobs_ahead + 1 !== state.view.position;
    if (moved || state.isBehind(why)) refresh();
    else changed();
  });

  let status = state.view.status;
  const update = (view) => {
    if (!lives()) attr(node, "hidden", true);
    if (view.status !== status) ask();
    status = view.status;
  };
  return { node, update };
}

/** What the router holds is told once per model and region, not once per execution. */
function reasonsOf({ reasons = [] }, waiting) {
  if (waiting.length === 0) return shortened(reasons);
  const groups = Map.groupBy(waiting, ({ model, region }) => `${model} in ${region}`);
  return shortened([...groups].map(([place, group]) => {
    const first = group[0];
    return `${place}: ${count(group.length, "execution")}, ${first.waiting_for ?? WAITING[first.state]}`;
  }));
}

function shortened(reasons) {
  if (reasons.length <= REASONS) return reasons;
  return [...reasons.slice(0, REASONS - 1), `and ${reasons.length - REASONS + 1} more`];
}
