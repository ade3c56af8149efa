// The job's latest events as text, newest first.

import { formatTime } from "../clock.js";
import { el } from "../dom.js";
import { count, failureText, sentenceCase } from "../labels.js";

const MAX_ENTRIES = 100;

const EVENT_TEXT = {
  JOB_SCHEDULED: ({ not_before: time }) => (time ? `Scheduled for ${formatTime(time)}` : "Waiting for a limit"),
  JOB_QUEUED: () => "Queued",
  QUEUE_POSITION: ({ position }) => `Position ${position}`,
  WAITING: ({ waiting_for: what, reason }) => `Waiting: ${what ?? reason ?? "for a GPU"}`,
  STEP_START: ({ step }) => `Step ${step} started`,
  STEP_COMPLETE: ({ step }) => `Step ${step} completed`,
  EXECUTION_QUEUED: (data) => `${targetOf(data)} waits for a GPU`,
  EXECUTION_START: (data) => `${targetOf(data)} started`,
  EXECUTION_COMPLETE: (data) => `${targetOf(data)} completed${movedTo(data)}`,
  EXECUTION_FAILED: (data) => `${targetOf(data)}: ${data.failure ? failureText(data.failure) : "cancelled"}`,
  JOB_RETRYING: ({ attempt, delay_s: delay }) => `Attempt ${attempt} failed; next in ${Math.round(delay)} s`,
  JOB_PROMOTED: ({ to }) => (to ? `Promoted to class ${to}` : "Promoted"),
  JOB_SKIPPED: ({ price }) => (price ? `Paid ${count(price, "credit")} to skip the queue` : "Paid to skip the queue"),
  JOB_COMPLETE: () => "Completed",
  JOB_PARTIAL: () => "Ended with some failures",
  JOB_FAILED: ({ failure }) => (failure ? failureText(failure) : "Failed"),
  JOB_CANCELLED: () => "Cancelled",
  JOB_EXPIRED: () => "Expired",
};

export class History {
  #list = el("ol", { class: "history" });
  #last = 0;
  node = el("details", { class: "panel" }, el("summary", {}, "History"), this.#list);

  add({ seq, type, at, data }) {
    if (seq <= this.#last) return;
    this.#last = seq;
    if (type === "EXECUTION_PROGRESS") return; // up to one a second: the cards show it
    const text = EVENT_TEXT[type]?.(data) ?? sentenceCase(type.toLowerCase());
    this.#list.prepend(el("li", {}, el("time", { class: "muted", datetime: at }, formatTime(at)), el("span", {}, text)));
    if (this.#list.childElementCount > MAX_ENTRIES) this.#list.lastElementChild.remove();
  }
}

function targetOf({ item, model, region }) {
  return [item, model, region].filter(Boolean).join(" · ");
}

function movedTo({ region, actual_region: actual }) {
  return actual && actual !== region ? ` in ${actual}` : "";
}
