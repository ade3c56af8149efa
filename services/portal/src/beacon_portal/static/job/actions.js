// Actions on a job: cancel, resume, pay to skip the queue.

import { path } from "../api.js";
import { el, setAttr, setText } from "../dom.js";
import { actionButton, confirmAction } from "../components.js";
import { LIVE_STATES, count } from "../labels.js";

/** `act(work, message)` performs a request, announces the message or shows the error, and refreshes the page. */
export function jobActions({ api, refreshAccount, session }, state, act) {
  const id = state.view.job_id;
  const skip = actionButton("Skip the queue", async () => {
    const price = count(state.view.skip_price, "credit");
    const sure = await confirmAction({
      title: "Skip the queue?",
      text: `This job moves to the front of the queue for ${price}. You have ${count(session.me?.credit ?? 0, "credit")}. `
        + "The price is refunded if the job is cancelled or fails before it has run.",
      action: `Pay ${price}`,
      dangerous: false,
    });
    if (!sure) return;
    await act(() => api.post(path`api/v1/jobs/${id}/skip`), "The job moved to the front of the queue");
    refreshAccount().catch(() => {});
  });
  const resume = actionButton("Resume", () => {
    return act(() => api.post(path`api/v1/jobs/${id}/resume`), "Job resumed");
  }, { class: "primary" });
  const cancel = actionButton("Cancel", async () => {
    const sure = await confirmAction({
      title: "Cancel this job?",
      text: "Running executions are stopped and pending ones will not run. Results received so far stay readable.",
      action: "Cancel the job",
    });
    if (sure) await act(() => api.post(path`api/v1/jobs/${id}/cancel`), "Job cancelled");
  }, { class: "danger" });
  const node = el("div", { class: "actions" }, skip, resume, cancel);
  const update = (view) => {
    setAttr(skip, "hidden", !Number.isInteger(view.skip_price));
    setText(skip, `Skip the queue (${count(view.skip_price ?? 0, "credit")})`);
    setAttr(resume, "hidden", !(["failed", "partial"].includes(view.status) && view.failure?.retryable !== false));
    setAttr(cancel, "hidden", !LIVE_STATES.has(view.status));
  };
  return { node, update };
}
