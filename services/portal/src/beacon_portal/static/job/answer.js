// One execution as a card: where it ran, how long each part took, what it said or why it failed, and a way to retry.

import { span } from "../clock.js";
import { attr, el, write } from "../dom.js";
import { actionButton, badge } from "../parts.js";
import { failureWords } from "../words.js";
import { outputNode } from "./output.js";

const WORDS = {
  pending: "Waiting for its turn",
  running: "Running now",
  at_router: "Waiting for a GPU",
  warming: "Its model is being loaded",
  backoff: "Waiting to be tried again",
  cancelled: "Cancelled before it finished",
};

/** `retry(execution)` asks for one more run; `fetchOutput(execution)` fills in an answer that an event left out. */
export function answerCard(execution, { retry, fetchOutput, heading }) {
  let shown = null;
  let current = execution;
  const state = badge(execution.shown);
  const place = el("span", { class: "chip" });
  const body = el("div", { class: "answer-body" });
  const times = el("small", { class: "muted" });
  const again = actionButton("Retry", () => retry(current), { class: "small" });
  const node = el("article", { class: "answer", "aria-label": `${heading ?? execution.model}, ${execution.region}` },
    el("header", {}, el("h3", {}, heading ?? execution.model), place, state.node),
    body, el("footer", {}, times, again));

  const update = (next) => {
    current = next;
    state.update(next.shown);
    write(place, placeWords(next));
    write(times, timeWords(next));
    attr(again, "hidden", !(next.state === "failed" && next.failure?.retryable !== false));
    attr(node, "data-tone", next.state === "failed" ? "bad" : null);
    if (sameBody(shown, next)) return;
    shown = next;
    if (next.bare) fetchOutput(next);
    body.replaceChildren(bodyNode(next));
  };
  update(execution);
  return { node, update };
}

function sameBody(a, b) {
  if (a === null || a.failure?.message !== b.failure?.message) return false;
  return a.shown === b.shown && a.attempt === b.attempt && a.bare === b.bare;
}

function bodyNode(execution) {
  if (execution.bare) return el("p", { class: "muted" }, "Fetching the answer…");
  if (execution.state === "completed") return outputNode(execution.output);
  if (execution.failure) return el("p", { class: "failure" }, failureWords(execution.failure));
  return el("p", { class: "muted" }, WORDS[execution.shown] ?? "");
}

function placeWords({ region, actual_region: actual }) {
  return actual && actual !== region ? `${region} → ran in ${actual}` : region;
}

function timeWords({ timing, attempt, backend, state }) {
  const parts = [];
  if (timing && state === "completed") {
    parts.push(`waited ${span(timing.queued_s)}`);
    if (timing.load_s > 0) parts.push(`load ${span(timing.load_s)}`);
    parts.push(`run ${span(timing.run_s)}`);
  }
  if (backend) parts.push(backend);
  if (attempt > 1) parts.push(`attempt ${attempt}`);
  return parts.join(" · ");
}
