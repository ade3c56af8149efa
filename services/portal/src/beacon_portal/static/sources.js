// Where events come from: a WebSocket, or server-sent events over fetch. EventSource cannot send an Authorization
// header, and keys do not belong in URLs.

import { path, query } from "./api.js";

const SILENCE_MS = 60_000;
const SOCKET_FAILURES = 3;
const GOOD_ENDS = new Set([1000, 1005, 1012]); // done, closed by this page, restarting

/** There is no such stream on this server, or something on the way does not let it through. */
export class NoStream extends Error {}

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
 * A source reads one connection to its end: `opened()` when it is there, `received({data})` per event.
 *
 * The socket comes first: a browser keeps only six other connections to a server, for all its tabs together.
 */
export function socketSource(api, jobId) {
  let failures = 0;
  return async ({ from, signal, opened, received }) => {
    const { ticket } = await api.post("api/v1/tickets", { job_id: jobId }, { signal });
    const address = api.socketAddress(path`ws/${jobId}` + query({ after: from, ticket }));
    const worked = await readSocket(new WebSocket(address), { signal, opened, received });
    failures = worked ? 0 : failures + 1;
    if (failures >= SOCKET_FAILURES) throw new NoStream();
  };
}

/** Whether the socket was of use: it brought something, or the server itself ended it in good order. */
function readSocket(socket, { signal, opened, received }) {
  return new Promise((resolve) => {
    let heard = false;
    const quiet = watchdog(() => socket.close());
    const stop = () => socket.close();
    signal.addEventListener("abort", stop, { once: true });
    socket.onopen = opened;
    socket.onmessage = ({ data }) => { heard = true; quiet.heard(); received({ data }); };
    socket.onclose = ({ code }) => {
      quiet.end();
      signal.removeEventListener("abort", stop);
      resolve(heard || GOOD_ENDS.has(code));
    };
  });
}

export function eventSource(api, jobId) {
  return async ({ from, signal, opened, received }) => {
    const silence = new AbortController();
    const quiet = watchdog(() => silence.abort());
    try {
      const response = await api.open(path`api/v1/jobs/${jobId}/events`, {
        headers: { Accept: "text/event-stream", "Last-Event-ID": String(from) },
        signal: AbortSignal.any([signal, silence.signal]),
      });
      opened();
      const parser = new EventParser();
      for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
        quiet.heard();
        parser.push(text, received);
      }
    } finally {
      quiet.end();
    }
  };
}

/** A connection that says nothing for long may be dead without knowing it: it is made anew. */
function watchdog(bark) {
  let timer = setTimeout(bark, SILENCE_MS);
  return {
    heard() {
      clearTimeout(timer);
      timer = setTimeout(bark, SILENCE_MS);
    },
    end: () => clearTimeout(timer),
  };
}
