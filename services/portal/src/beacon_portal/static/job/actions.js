// Actions on a job: cancel, resume, pay to skip the queue.

import { path } from "../api.js";
import { el, setAttr, setText } from "../dom.js";
import { actionButton, confirmAction } from "../components.js";
import { LIVE_STATES, count } from "../labels.js";
import { saveBlob } from "../media/files.js";

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
  const remove = actionButton("Delete", async () => {
    const sure = await confirmAction({
      title: "Delete this job?",
      text: "Its results, events and files are removed. This cannot be undone.",
      action: "Delete the job",
    });
    if (!sure) return;
    await act(async () => {
      await api.delete(path`api/v1/jobs/${id}`);
      location.hash = "#/jobs";
    }, "Job deleted");
  }, { class: "quiet" });
  const save = (format) => actionButton(`Results as ${format.toUpperCase()}`, () => act(async () => {
    const response = await api.open(path`api/v1/jobs/${id}/results.${format}`);
    saveBlob(await response.blob(), `${id}.${format}`);
  }, "Results saved"), { class: "quiet" });
  const node = el("div", { class: "actions" }, skip, resume, cancel, save("csv"), save("jsonl"), remove);
  const update = (view) => {
    setAttr(skip, "hidden", !Number.isInteger(view.skip_price));
    setText(skip, `Skip the queue (${count(view.skip_price ?? 0, "credit")})`);
    const scheduled = view.status === "scheduled" && view.next_attempt_at;
    const failed = ["failed", "partial"].includes(view.status) && view.failure?.retryable !== false;
    setAttr(resume, "hidden", !(failed || scheduled || view.status === "expired"));
    setText(resume, scheduled ? "Start now" : "Resume");
    setAttr(remove, "hidden", LIVE_STATES.has(view.status));
    setAttr(cancel, "hidden", !LIVE_STATES.has(view.status));
  };
  return { node, update };
}
