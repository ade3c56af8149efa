// What its owner can do with a job: cancel, resume, pay to go first.

import { path } from "../api.js";
import { attr, el } from "../dom.js";
import { actionButton, confirmed } from "../parts.js";
import { priceOf } from "../prices.js";
import { LIVE, count } from "../words.js";

/** `act(work, done)` performs a request, tells how it went and brings the page up to date. */
export function jobActions({ api, refreshAccount, signal }, state, act) {
  const id = state.view.job_id;
  const skip = actionButton("Go first", async () => {
    const price = await askPrice(api, state.view, signal);
    const sure = await confirmed({
      title: "Go first?",
      text: price === null
        ? "This job moves ahead of all others in its queue, for the price that applies to its present wait."
        : `This job moves ahead of all others in its queue for ${count(price, "credit")}. They come back if it had already started.`,
      action: price === null ? "Pay and go first" : `Pay ${count(price, "credit")}`,
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
    attr(skip, "hidden", view.status !== "queued" || Boolean(view.price_paid));
    attr(resume, "hidden", !(["failed", "partial"].includes(view.status) && view.failure?.retryable !== false));
    attr(cancel, "hidden", !LIVE.has(view.status));
  };
  return { node, update };
}

async function askPrice(api, view, signal) {
  try {
    const { prices } = await api.get("api/v1/skip-pricing", { signal });
    return prices?.length ? priceOf(prices, view.estimated_wait_s ?? 0) : null;
  } catch {
    return null;
  }
}
