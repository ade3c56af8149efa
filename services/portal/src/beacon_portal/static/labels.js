// Labels of states and failures. Every colour has a glyph, so that colour is never the only sign.

import { formatDuration } from "./clock.js";

const STATES = {
  scheduled: ["wait", "◔", "Scheduled"],
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
  expired: ["off", "⊘", "Expired"],
  open: ["bad", "✕", "Open"],
  half_open: ["warn", "◐", "Probing"],
  closed: ["ok", "✓", "Healthy"],
  starting: ["wait", "◔", "Starting"],
  draining: ["warn", "◔", "Draining"],
  drained: ["off", "–", "Drained"],
  paused: ["warn", "❚", "Paused"],
  delivered: ["ok", "✓", "Delivered"],
  enabled: ["ok", "✓", "Enabled"],
  disabled: ["off", "–", "Disabled"],
  consuming: ["ok", "✓", "Active"],
};

export const LIVE_STATES = new Set(["scheduled", "queued", "processing", "retrying"]);

export function stateOf(state) {
  const [tone, glyph, label] = STATES[state] ?? ["wait", "?", sentenceCase(String(state))];
  return { tone, glyph, label };
}

export function sentenceCase(text) {
  return capitalised(text.replaceAll("_", " "));
}

function capitalised(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

export function count(number, one, many = `${one}s`) {
  return `${number.toLocaleString()} ${number === 1 ? one : many}`;
}

/** Bytes in the unit that fits. */
export function formatBytes(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let [value, unit] = [bytes, 0];
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${unit ? value.toFixed(1) : value} ${units[unit]}`;
}

/** What an execution has made, as the name of its files. */
export function outputLabel({ step, item, model, region }) {
  return (step ? [step, region] : [item, model, region]).filter(Boolean).join(" · ");
}

const STAGES = {
  admission: "before it was accepted",
  queue: "while it was queued",
  load: "while the model was loading",
  run: "while it ran",
  transport: "while it was sent to the GPU",
  record: "while the result was stored",
};

export function failureText(failure) {
  const where = STAGES[failure.stage] ? `Failed ${STAGES[failure.stage]}` : "Failed";
  return `${where}: ${failure.message}`;
}

/** An error in one line, with the time to wait before a retry. */
export function problemText(error) {
  const wait = error.retryAfter ? ` Try again in ${formatDuration(Math.ceil(error.retryAfter))}.` : "";
  return `${capitalised(error.message).replace(/\.?$/, ".")}${wait}`;
}
