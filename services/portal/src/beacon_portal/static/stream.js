// Staying up to date: following a stream over lost connections, and asking again and again.

import { Refused, Unreachable } from "./api.js";
import { NoStream } from "./sources.js";

const FIRST_PAUSE_MS = 400;
const LONGEST_PAUSE_MS = 8_000;

/**
 * Follows the first source that works until the signal says stop.
 *
 * `opened(again)` is called with each connection, before its first event: `again` means that something may have
 * been missed. `received(event)` gets each event and returns the number to go on from.
 * Resolves to "done" when a connection ended and `finished()` says so, and to "absent" when no source works.
 */
export async function follow(sources, { after, opened, received, finished, signal }) {
  const left = [...sources];
  let pause = FIRST_PAUSE_MS;
  let again = false;
  let from = after;
  const receive = (event) => { from = received(event); pause = FIRST_PAUSE_MS; };
  while (!signal.aborted && left.length) {
    try {
      await left[0]({ from, signal, opened: () => opened(again), received: receive });
    } catch (error) {
      if (error instanceof NoStream || error.absent || error.status === 401) left.shift();
      else logUnexpected(error, signal);
    }
    again = true;
    if (signal.aborted) break;
    if (finished()) return "done";
    await sleep(pause * (0.75 + Math.random() / 2), signal);
    pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
  }
  return left.length ? "stopped" : "absent";
}

const BROKEN = /network error|input stream|load failed/i; // what browsers say of a stream that broke

function logUnexpected(error, signal) {
  const raised = error instanceof Refused || error instanceof Unreachable || error.name === "AbortError";
  if (!signal.aborted && !raised && !BROKEN.test(error.message)) console.error(error);
}

/** Resolves after the time or when the signal aborts; leaves no listener on the signal. */
export function sleep(ms, signal) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done);
    if (signal.aborted) done();
  });
}

/**
 * Does the work now and again `seconds` after it ended; waits while nobody looks; slows down while it fails.
 * What is returned asks for the next round at once.
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
      const pause = Math.min(seconds * 2 ** Math.min(failures, 3), 15) * 1000;
      await sleep(pause, AbortSignal.any([signal, wake.signal]));
      await visible(signal);
    }
  }
}

async function succeeds(work, signal) {
  try {
    await work();
    return true;
  } catch (error) {
    logUnexpected(error, signal);
    return false;
  }
}

/** Resolves when the page is visible or the signal aborts. */
function visible(signal) {
  return new Promise((resolve) => {
    const check = () => {
      if (document.hidden && !signal.aborted) return;
      document.removeEventListener("visibilitychange", check);
      signal.removeEventListener("abort", check);
      resolve();
    };
    document.addEventListener("visibilitychange", check);
    signal.addEventListener("abort", check);
    check();
  });
}
