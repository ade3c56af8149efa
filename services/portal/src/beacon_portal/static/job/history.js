// What happened to the job, newest first, in words. Bounded: a job may have ten thousand events.

import { timeOfDay } from "../clock.js";
import { el } from "../dom.js";
import { count, failureWords, titled } from "../words.js";

const KEPT = 100;

const WORDS = {
  JOB_QUEUED: () => "Queued",
  QUEUE_POSITION: ({ position }) => `Position ${position}`,
  WAITING: ({ waiting_for: what, reason }) => `Waiting: ${what ?? reason ?? "for a GPU"}`,
  STEP_START: ({ step }) => `Step ${step} started`,
  STEP_COMPLETE: ({ step }) => `Step ${step} completed`,
  EXECUTION_START: (data) => `${place(data)} started`,
  EXECUTION_COMPLETE: (data) => `${place(data)} completed${moved(data)}`,
  EXECUTION_FAILED: (data) => `${place(data)}: ${data.failure ? failureWords(data.failure) : "cancelled"}`,
  JOB_RETRYING: ({ attempt, delay_s: delay }) => `Attempt ${attempt} failed; next in ${Math.round(delay)} s`,
  JOB_PROMOTED: ({ to }) => (to ? `Promoted to class ${to}` : "Promoted"),
  JOB_SKIPPED: ({ price }) => (price ? `Paid ${count(price, "credit")} to go first` : "Paid to go first"),
  JOB_COMPLETE: () => "Completed",
  JOB_PARTIAL: () => "Ended with some failures",
  JOB_FAILED: ({ failure }) => (failure ? failureWords(failure) : "Failed"),
  JOB_CANCELLED: () => "Cancelled",
};

export class History {
  #list = el("ol", { class: "history" });
  #last = 0;
  node = el("details", { class: "panel" }, el("summary", {}, "History"), this.#list);

  add({ seq, type, at, data }) {
    if (seq <= this.#last) return;
    this.#last = seq;
    const words = WORDS[type]?.(data) ?? titled(type.toLowerCase());
    this.#list.prepend(el("li", {}, el("time", { class: "muted", datetime: at }, timeOfDay(at)), el("span", {}, words)));
    if (this.#list.childElementCount > KEPT) this.#list.lastElementChild.remove();
  }
}

function place({ item, model, region }) {
  return [item, model, region].filter(Boolean).join(" · ");
}

function moved({ region, actual_region: actual }) {
  return actual && actual !== region ? ` in ${actual}` : "";
}
