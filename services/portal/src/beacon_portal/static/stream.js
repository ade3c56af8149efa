// Server-sent events over fetch: EventSource cannot send an Authorization header, and keys do not belong in URLs.

import { Refused, Unreachable } from "./api.js";

const SILENCE_MS = 45_000;
const FIRST_PAUSE_MS = 400;
const LONGEST_PAUSE_MS = 8_000;

/** Splits a text stream into events; a line or an event may arrive in pieces. */
export class EventParser {
  #rest = "";
  #event = { data: [], id: undefined, type: "message" };

  push(text, onEvent) {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop();
    for (const line of lines) this.#line(line, onEvent);
  }

  #line(line, onEvent) {
    if (line === "") return this.#dispatch(onEvent);
    const colon = line.indexOf(":");
    if (colon === 0) return undefined; // a comment: the heartbeat
    const name = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (name === "data") this.#event.data.push(value);
    if (name === "id") this.#event.id = value;
    if (name === "event") this.#event.type = value;
    return undefined;
  }

  #dispatch(onEvent) {
    const { data, id, type } = this.#event;
    this.#event = { data: [], id: undefined, type: "message" };
    if (data.length) onEvent({ id, type, data: data.join("\n") });
  }
}

/**
 * Follows a stream until the signal says stop or the server says that there is none.
 *
 * `opened(again)` is called with each connection, before its first event: `again` means that something may have
 * been missed. `received(event)` gets each event and returns the number to go on from, or `null` for "no change".
 * Resolves to "done" when the server ended it and `finished()` agrees, and to "absent" when it cannot stream.
 */
export async function follow(api, path, { after, opened, received, finished, signal }) {
  let pause = FIRST_PAUSE_MS;
  let again = false;
  let from = after;
  while (!signal.aborted) {
    try {
      await readOnce(api, path, {
        from, signal,
        opened: () => { opened(again); again = true; pause = FIRST_PAUSE_MS; },
        received: (event) => { from = received(event) ?? from; },
      });
    } catch (error) {
      if (error instanceof Refused && (error.absent || error.status === 401 || error.status === 406)) return "absent";
      again = true;
    }
    if (signal.aborted) break;
    if (finished()) return "done";
    await sleep(pause * (0.75 + Math.random() / 2), signal);
    pause = Math.min(pause * 2, LONGEST_PAUSE_MS);
  }
  return "stopped";
}

async function readOnce(api, path, { from, signal, opened, received }) {
  const quiet = new AbortController();
  let watchdog = setTimeout(() => quiet.abort(), SILENCE_MS);
  const either = AbortSignal.any([signal, quiet.signal]);
  try {
    const headers = { Accept: "text/event-stream", ...(from === undefined ? {} : { "Last-Event-ID": String(from) }) };
    const response = await api.open(path, { headers, signal: either });
    opened();
    const parser = new EventParser();
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      clearTimeout(watchdog);
      if (done) return;
      watchdog = setTimeout(() => quiet.abort(), SILENCE_MS);
      parser.push(value, received);
    }
  } finally {
    clearTimeout(watchdog);
  }
}

export function sleep(ms, signal) {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve();
    const timer = setTimeout(resolve, ms);
    signal?.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
    return undefined;
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
    const expected = signal.aborted || error instanceof Refused || error instanceof Unreachable;
    if (!expected) console.error(error);
    return false;
  }
}

function visible(signal) {
  if (!document.hidden) return undefined;
  return new Promise((resolve) => {
    const look = () => { if (!document.hidden || signal.aborted) resolve(); };
    document.addEventListener("visibilitychange", look, { signal });
    signal.addEventListener("abort", resolve, { once: true });
  });
}
