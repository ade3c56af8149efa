// States and failures in words. A glyph goes with every colour, so that colour is never the only sign.

import { span } from "./clock.js";

const STATES = {
  queued: ["wait", "◷", "Queued"],
  pending: ["wait", "·", "Pending"],
  processing: ["run", "▶", "Running"],
  running: ["run", "▶", "Running"],
  warming: ["run", "◔", "Loading the model"],
  backoff: ["warn", "↻", "Waiting to retry"],
  retrying: ["warn", "↻", "Retrying"],
  completed: ["ok", "✓", "Completed"],
  partial: ["warn", "◐", "Partial"],
  failed: ["bad", "✕", "Failed"],
  cancelled: ["off", "–", "Cancelled"],
  open: ["bad", "✕", "Open"],
  half_open: ["warn", "◐", "Probing"],
  closed: ["ok", "✓", "Healthy"],
  at_router: ["wait", "◷", "Waiting"],
  paused: ["warn", "❚", "Paused"],
  consuming: ["ok", "✓", "Serving"],
};

export const LIVE = new Set(["queued", "processing", "retrying"]);

export function stateOf(state) {
  const [tone, glyph, label] = STATES[state] ?? ["wait", "?", titled(String(state))];
  return { tone, glyph, label };
}

export function titled(text) {
  return sentence(text.replaceAll("_", " "));
}

function sentence(words) {
  return words.charAt(0).toUpperCase() + words.slice(1);
}

export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString()} ${number === 1 ? one : many}`;
}

const STAGES = {
  admission: "before it was accepted",
  queue: "while it waited",
  load: "while the model was loading",
  run: "while it ran",
  transport: "on the way to the GPU",
  record: "while the result was stored",
};

export function failureWords(failure) {
  const where = STAGES[failure.stage] ? `Failed ${STAGES[failure.stage]}` : "Failed";
  return `${where}: ${failure.message}`;
}

/** A refusal in one line, with what can be done about it. */
export function problemWords(error) {
  const wait = error.retryAfter ? ` Try again in ${span(Math.ceil(error.retryAfter))}.` : "";
  return `${sentence(error.message).replace(/\.?$/, ".")}${wait}`;
}
