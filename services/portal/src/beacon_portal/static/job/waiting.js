// Why the job waits, in words, for as long as it does.

import { path } from "../api.js";
import { attr, el, write } from "../dom.js";
import { panel } from "../parts.js";
import { poll } from "../stream.js";
import { LIVE } from "../words.js";

const EVERY_S = 3;

export function waitingPanel({ api, signal }, state) {
  const words = el("p");
  const more = el("ul", { class: "plain" });
  const node = panel("Why is it waiting?", words, more);
  node.hidden = true;
  const waits = () => LIVE.has(state.view.status) && state.view.progress.running === 0;

  const ask = poll(EVERY_S, signal, async () => {
    if (!waits()) return;
    try {
      const why = await api.get(path`api/v1/jobs/${state.view.job_id}/why`, { signal });
      write(words, why.summary);
      more.replaceChildren(...(why.reasons ?? []).map((reason) => el("li", {}, reason)));
      attr(node, "hidden", !waits() || !why.summary);
    } catch (error) {
      attr(node, "hidden", true);
      throw error;
    }
  });

  let status = state.view.status;
  const update = (view) => {
    if (!waits()) attr(node, "hidden", true);
    if (view.status !== status) ask();
    status = view.status;
  };
  return { node, update };
}
