// Keeping data current: following a stream across lost connections, and polling.

import { ApiError, NetworkError } from "./api.js";
import { TransportUnavailable } from "./transports.js";

const MIN_DELAY_MS = 400;
const MAX_DELAY_MS = 8_000;

/**
 * Follow the first transport that works until the signal aborts.
 *
 * `opened(again)` is called for each connection before its first event; `again` means that events may have been
 * missed. `onEvent(event)` gets each event and returns the sequence number to resume from.
 * Resolves to "done" when a connection has ended and `finished()` is true, to "absent" when no transport works.
 */
export async function follow(transports, { after, opened, onEvent, finished, signal }) {
  const left = [...transports];
  let delay = MIN_DELAY_MS;
  let again = false;
  let from = after;
  const resumable = (event) => { from = onEvent(event); delay = MIN_DELAY_MS; };
  while (!signal.aborted && left.length) {
    try {
      await left[0]({ from, signal, opened: () => opened(again), onEvent: resumable });
    } catch (error) {
      if (error instanceof TransportUnavailable || error.absent || error.status === 401) left.shift();
      else logUnexpectedError(error, signal);
    }
    again = true;
    if (signal.aborted) break;
    if (finished()) return "done";
    await sleep(delay * (0.75 + Math.random() / 2), signal);
    delay = Math.min(delay * 2, MAX_DELAY_MS);
  }
  return left.length ? "stopped" : "absent";
}

const BROKEN_STREAM = /network error|input stream|load failed/i; // browsers' messages for a broken stream

function logUnexpectedError(error, signal) {
  const expected = error instanceof ApiError || error instanceof NetworkError || error.name === "AbortError";
  if (!signal.aborted && !expected && !BROKEN_STREAM.test(error.message)) console.error(error);
}

/** Resolves after the time or when the signal aborts; leaves no listener on the signal. */
export function sleep(ms, signal) {
  return /** @type {Promise<void>} */ (new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
    if (signal.aborted) done();
  }));
}

/**
 * Run `work` now and again `seconds` after it ended; pause while the page is hidden; slow down while it fails.
 * The returned function starts the next run immediately.
 */
export function poll(seconds, signal, work) {
  let wake = new AbortController();
  run();
  return () => wake.abort();

  async function run() {
    let failures = 0;
    while (!signal.aborted) {
      wake = new AbortController();
      failures = (await succeeds(work, signal)) ? 0 : failures + 1;
      const delayMs = Math.min(seconds * 2 ** Math.min(failures, 3), 15) * 1000;
      await sleep(delayMs, AbortSignal.any([signal, wake.signal]));
      await visible(signal);
    }
  }
}

async function succeeds(work, signal) {
  try {
    await work();
    return true;
  } catch (error) {
    logUnexpectedError(error, signal);
    return false;
  }
}

/** Resolves when the page is visible or the signal aborts. */
function visible(signal) {
  return /** @type {Promise<void>} */ (new Promise((resolve) => {
    const check = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", check);
      signal.removeEventListener("abort", check);
      resolve();
    };
    document.addEventListener("visibilitychange", check);
    signal.addEventListener("abort", check);
    check();
  }));
}
