// Why the job waits, in words, for as long as it does.

import { path } from "../api.js";
import { attr, el, write } from "../dom.js";
import { panel } from "../parts.js";
import { poll } from "../stream.js";
import { LIVE } from "../words.js";

const EVERY_S = 3;
const REASONS = 6;
const AT_ROUTER = new Set(["queued", "warming", "backoff"]);

export function waitingPanel({ api, signal }, state, refresh) {
  const words = el("p");
  const more = el("ul", { class: "reasons" });
  const node = panel("Why is it waiting?", words, more);
  node.hidden = true;
  const lives = () => LIVE.has(state.view.status);

  const ask = poll(EVERY_S, signal, async () => {
    if (!lives()) return;
    try {
      const why = await api.get(path`api/v1/jobs/${state.view.job_id}/why`, { signal });
      write(words, why.summary);
      if (Number.isInteger(why.jobs_ahead) && why.jobs_ahead + 1 !== state.view.position) refresh();
      more.replaceChildren(...shortened(why.reasons ?? []).map((reason) => el("li", {}, reason)));
      attr(node, "hidden", !lives() || !waits(why));
    } catch (error) {
      attr(node, "hidden", true);
      throw error;
    }
  });

  let status = state.view.status;
  const update = (view) => {
    if (!lives()) attr(node, "hidden", true);
    if (view.status !== status) ask();
    status = view.status;
  };
  return { node, update };
}

/** A job that runs may still wait: for a slot, a cap or a model that loads. */
function waits({ status, summary, executions = [] }) {
  return Boolean(summary) && (status !== "processing" || executions.some(({ state }) => AT_ROUTER.has(state)));
}

function shortened(reasons) {
  return reasons.length > REASONS ? [...reasons.slice(0, REASONS - 1), `and ${reasons.length - REASONS + 1} more`] : reasons;
}
