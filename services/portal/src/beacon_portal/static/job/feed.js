// Keeps a job's state current: by events while a stream is open, by snapshots when events may have been missed.

import { fetchJob } from "../api.js";
import { sseTransport, webSocketTransport } from "../transports.js";
import { follow, poll, sleep } from "../follow.js";
import { LIVE_STATES } from "../labels.js";
import { isExecutionEvent } from "./state.js";

const MAX_PENDING_EVENTS = 2_000;
const SNAPSHOT_EVERY_MS = 400;
const RETRY_MS = 1_500;
const POLL_S = 2;
const END_EVENTS = new Set(["JOB_COMPLETE", "JOB_PARTIAL", "JOB_FAILED", "JOB_CANCELLED", "JOB_EXPIRED"]);

export class Feed {
  #api;
  #id;
  #signal;
  #state;
  #changed;
  #onEvent;
  #pending = [];
  #overflowed = false;
  #frame = false;
  /** @type {Promise<void> | null} */
  #snapshot = null;
  #stale = false;
  #following = false;
  #ended = false;
  #seq = 0;

  /** `changed()` is called after each change of the state, `onEvent(event)` once per event. */
  constructor(api, id, signal, { state, changed, onEvent }) {
    this.#api = api;
    this.#id = id;
    this.#signal = signal;
    this.#state = state;
    this.#changed = changed;
    this.#onEvent = onEvent;
  }

  /** Follow until the job ends. Call again after an action that may have restarted it. */
  async follow() {
    if (this.#following) return;
    this.#following = true;
    this.#ended = false;
    const transports = [webSocketTransport(this.#api, this.#id), sseTransport(this.#api, this.#id)];
    const outcome = await follow(transports, {
      after: this.#seq,
      opened: (again) => { if (again) this.refresh(); },
      onEvent: (event) => this.#receive(event),
      finished: () => this.#ended || !LIVE_STATES.has(this.#state.view.status),
      signal: this.#signal,
    });
    this.#following = false;
    if (outcome === "absent") this.#pollInstead();
  }

  /** Fetch a snapshot; concurrent calls share one request. */
  refresh() {
    this.#stale = true;
    this.#snapshot ??= this.#fetch().finally(() => { this.#snapshot = null; });
    return this.#snapshot;
  }

  async #fetch() {
    while (this.#stale && !this.#signal.aborted) {
      this.#stale = false;
      try {
        this.#state.replace(await fetchJob(this.#api, this.#id, this.#signal));
        this.#changed();
        await sleep(SNAPSHOT_EVERY_MS, this.#signal);
      } catch (error) {
        if (error.status === 401 || error.absent) return;
        this.#stale = true;
        await sleep(RETRY_MS, this.#signal);
      }
    }
  }

  #receive({ data }) {
    const event = readEvent(data);
    if (!event) {
      this.refresh();
      return this.#seq;
    }
    this.#seq = Math.max(this.#seq, event.seq);
    this.#ended = END_EVENTS.has(event.type);
    this.#pending.push(event);
    if (this.#pending.length > MAX_PENDING_EVENTS) {
      this.#pending.length = 0;
      this.#overflowed = true;
    }
    this.#schedule();
    return this.#seq;
  }

  /** Process events once per frame. A hidden page has no frames: its pending events overflow into a snapshot. */
  #schedule() {
    if (this.#frame) return;
    this.#frame = true;
    requestAnimationFrame(() => { this.#frame = false; this.#processPending(); });
  }

  #processPending() {
    const events = this.#pending.splice(0);
    let wholeJob = this.#overflowed;
    this.#overflowed = false;
    for (const event of events) {
      this.#onEvent(event);
      if (isExecutionEvent(event.type)) this.#state.apply(event);
      else wholeJob = true;
    }
    if (wholeJob) this.refresh();
    this.#changed();
  }

  #pollInstead() {
    poll(POLL_S, this.#signal, () => this.refresh());
  }
}

function readEvent(text) {
  try {
    const event = JSON.parse(text);
    return event.seq && event.type ? event : null;
  } catch {
    return null;
  }
}
