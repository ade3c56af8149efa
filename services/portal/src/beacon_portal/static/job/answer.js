// One execution as a card: region, timing, output or failure, and a retry button.

import { formatDuration } from "../clock.js";
import { el, setAttr, setText } from "../dom.js";
import { actionButton, badge, runProgress } from "../components.js";
import { failureText, outputLabel } from "../labels.js";
import { outputNode } from "./output.js";
import { comparedText, markMatches, textOf } from "./text.js";

const STATE_TEXT = {
  pending: "Waiting in the queue",
  running: "Running now",
  queued: "Waiting for a GPU",
  warming: "Loading the model",
  backoff: "Waiting for a retry",
  cancelled: "Cancelled before it finished",
};

/**
 * `retry(execution)` requests another run; `fetchOutput(execution)` loads an output that an event or a page left out;
 * `viewer` shows files.
 */
export function answerCard(execution, { retry, fetchOutput, viewer, heading }) {
  let shown = null;
  let current = execution;
  const state = badge(execution.shown);
  const region = el("span", { class: "chip" });
  const body = el("div", { class: "answer-body" });
  const progress = runProgress();
  const times = el("small", { class: "muted" });
  const again = actionButton("Retry", () => retry(current), { class: "small" });
  const node = el("article", { class: "answer", "aria-label": `${heading ?? execution.model}, ${execution.region}` },
    el("header", {}, el("h3", {}, heading ?? execution.model), region, state.node),
    body, progress.node, el("footer", {}, times, again));

  const update = (next) => {
    current = next;
    state.update(next.shown);
    setText(region, regionText(next));
    progress.update(next.state === "running" ? next.progress : null);
    setText(times, timingText(next));
    setAttr(again, "hidden", !(next.state === "failed" && next.failure?.retryable !== false));
    setAttr(node, "data-tone", next.state === "failed" ? "bad" : null);
    if (sameBody(shown, next)) return;
    shown = next;
    if (next.withoutOutput) fetchOutput(next);
    body.replaceChildren(bodyNode(next, viewer));
    if (next.wanted) markMatches(body, next.wanted);
    requestAnimationFrame(() => allowScrolling(body));
  };
  update(execution);
  return { node, update };
}

/** A long answer scrolls by keyboard too. */
function allowScrolling(body) {
  const long = body.scrollHeight > body.clientHeight;
  for (const [name, value] of [["tabindex", 0], ["role", "group"], ["aria-label", "Answer"]]) setAttr(body, name, long ? value : null);
}

function sameBody(a, b) {
  if (a === null || a.failure?.message !== b.failure?.message) return false;
  const names = ["shown", "attempt", "withoutOutput", "comparedWith", "wanted"];
  return names.every((name) => a[name] === b[name]);
}

function bodyNode(execution, viewer) {
  if (execution.withoutOutput) return el("p", { class: "muted" }, "Loading the answer…");
  const text = textOf(execution);
  if (text !== null && typeof execution.comparedWith === "string") return comparedText(text, execution.comparedWith);
  if (execution.state === "completed") {
    return outputNode(execution.output, { response: execution.response, viewer, label: outputLabel(execution) });
  }
  if (execution.failure) return el("p", { class: "failure" }, failureText(execution.failure));
  return el("p", { class: "muted" }, STATE_TEXT[execution.shown] ?? "");
}

function regionText({ region, actual_region: actual }) {
  return actual && actual !== region ? `${region} → ran in ${actual}` : region;
}

function timingText({ timing, attempt, backend, state }) {
  const parts = [];
  if (timing && state === "completed") {
    parts.push(`waited ${formatDuration(timing.queued_s)}`);
    if (timing.load_s > 0) parts.push(`load ${formatDuration(timing.load_s)}`);
    parts.push(`run ${formatDuration(timing.run_s)}`);
  }
  if (backend) parts.push(backend);
  if (attempt > 1) parts.push(`attempt ${attempt}`);
  return parts.join(" · ");
}
