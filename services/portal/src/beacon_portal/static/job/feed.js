// Keeps a job's state current: events while the server streams them, snapshots when something may have been missed.

import { path } from "../api.js";
import { eventSource, socketSource } from "../sources.js";
import { follow, poll, sleep } from "../stream.js";
import { LIVE } from "../words.js";
import { isCellEvent } from "./state.js";

const MAILBOX = 2_000;
const SNAPSHOT_EVERY_MS = 400;
const RETRY_MS = 1_500;
const POLL_S = 2;
const ENDINGS = new Set(["JOB_COMPLETE", "JOB_PARTIAL", "JOB_FAILED", "JOB_CANCELLED"]);

export class Feed {
  #api;
  #id;
  #signal;
  #state;
  #changed;
  #heard;
  #mailbox = [];
  #overflowed = false;
  #frame = false;
  #snapshot = null;
  #stale = false;
  #following = false;
  #ended = false;
  #seq = 0;

  /** `changed()` after each change of the state; `heard(event)` once per event. */
  constructor(api, id, signal, { state, changed, heard }) {
    this.#api = api;
    this.#id = id;
    this.#signal = signal;
    this.#state = state;
    this.#changed = changed;
    this.#heard = heard;
  }

  /** Follows while the job lives; to be called again when an action may have brought it back to life. */
  async follow() {
    if (this.#following) return;
    this.#following = true;
    this.#ended = false;
    const sources = [socketSource(this.#api, this.#id), eventSource(this.#api, this.#id)];
    const outcome = await follow(sources, {
      after: this.#seq,
      opened: (again) => { if (again) this.refresh(); },
      received: (event) => this.#receive(event),
      finished: () => this.#ended || !LIVE.has(this.#state.view.status),
      signal: this.#signal,
    });
    this.#following = false;
    if (outcome === "absent") this.#pollInstead();
  }

  /** A snapshot soon; several wishes at once are one request. */
  refresh() {
    this.#stale = true;
    this.#snapshot ??= this.#fetch().finally(() => { this.#snapshot = null; });
    return this.#snapshot;
  }

  async #fetch() {
    while (this.#stale && !this.#signal.aborted) {
      this.#stale = false;
      try {
        this.#state.replace(await this.#api.get(path`api/v1/jobs/${this.#id}`, { signal: this.#signal }));
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
    this.#ended = ENDINGS.has(event.type);
    this.#mailbox.push(event);
    if (this.#mailbox.length > MAILBOX) {
      this.#mailbox.length = 0;
      this.#overflowed = true;
    }
    this.#schedule();
    return this.#seq;
  }

  /** Once per frame, so that a burst is one paint; a hidden page has no frames and lets the mailbox overflow. */
  #schedule() {
    if (this.#frame) return;
    this.#frame = true;
    requestAnimationFrame(() => { this.#frame = false; this.#work(); });
  }

  #work() {
    const events = this.#mailbox.splice(0);
    let wholeJob = this.#overflowed;
    this.#overflowed = false;
    for (const event of events) {
      this.#heard(event);
      if (isCellEvent(event.type)) this.#state.apply(event);
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
