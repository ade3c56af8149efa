// What its owner can do with a job: cancel, resume, pay to go first.

import { path } from "../api.js";
import { attr, el, write } from "../dom.js";
import { actionButton, confirmed } from "../parts.js";
import { LIVE, count } from "../words.js";

/** `act(work, done)` performs a request, tells how it went and brings the page up to date. */
export function jobActions({ api, refreshAccount, session }, state, act) {
  const id = state.view.job_id;
  const skip = actionButton("Go first", async () => {
    const price = count(state.view.skip_price, "credit");
    const sure = await confirmed({
      title: "Go first?",
      text: `This job moves ahead of all others for ${price}. You have ${count(session.me?.credit ?? 0, "credit")}. `
        + "They come back if the job is cancelled or fails before it has run.",
      action: `Pay ${price}`,
      dangerous: false,
    });
    if (!sure) return;
    await act(() => api.post(path`api/v1/jobs/${id}/skip`), "The job goes first");
    refreshAccount().catch(() => {});
  });
  const resume = actionButton("Resume", () => {
    return act(() => api.post(path`api/v1/jobs/${id}/resume`), "Job resumed");
  }, { class: "primary" });
  const cancel = actionButton("Cancel", async () => {
    const sure = await confirmed({
      title: "Cancel this job?",
      text: "What runs now is stopped and what waits will not run. Answers that are already there stay readable.",
      action: "Cancel the job",
    });
    if (sure) await act(() => api.post(path`api/v1/jobs/${id}/cancel`), "Job cancelled");
  }, { class: "danger" });
  const node = el("div", { class: "actions" }, skip, resume, cancel);
  const update = (view) => {
    attr(skip, "hidden", !Number.isInteger(view.skip_price));
    write(skip, `Go first (${count(view.skip_price ?? 0, "credit")})`);
    attr(resume, "hidden", !(["failed", "partial"].includes(view.status) && view.failure?.retryable !== false));
    attr(cancel, "hidden", !LIVE.has(view.status));
  };
  return { node, update };
}
