// Event transports: a WebSocket, or server-sent events over fetch. EventSource cannot send an Authorization header,
// and keys do not belong in URLs.

import { path, query } from "./api.js";

const IDLE_TIMEOUT_MS = 60_000;
const MAX_SOCKET_FAILURES = 3;
const NORMAL_CLOSE_CODES = new Set([1000, 1005, 1012]); // done, closed by this page, restarting

/** The server does not offer this transport, or a proxy blocks it. */
export class TransportUnavailable extends Error {}

/** Parser of server-sent events; a line or an event may arrive in several chunks. */
export class EventParser {
  #rest = "";
  #event = newEvent();

  push(text, onEvent) {
    const lines = (this.#rest + text).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop() ?? "";
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
    this.#event = newEvent();
    if (data.length) onEvent({ id, type, data: data.join("\n") });
  }
}

/** @returns {{data: string[], id: string | undefined, type: string}} */
function newEvent() {
  return { data: [], id: undefined, type: "message" };
}

/**
 * A transport reads one connection to its end: `opened()` once it is established, `onEvent({data})` per event.
 *
 * The WebSocket is preferred: a browser allows only six HTTP/1.1 connections to a server over all tabs.
 */
export function webSocketTransport(api, jobId) {
  let failures = 0;
  return async ({ from, signal, opened, onEvent }) => {
    const { ticket } = await api.post("api/v1/tickets", { job_id: jobId }, { signal });
    const address = api.socketAddress(path`ws/${jobId}` + query({ after: from, ticket }));
    const worked = await readSocket(new WebSocket(address), { signal, opened, onEvent });
    failures = worked ? 0 : failures + 1;
    if (failures >= MAX_SOCKET_FAILURES) throw new TransportUnavailable();
  };
}

/** Resolves to whether the socket worked: it received an event, or the server closed it normally. */
function readSocket(socket, { signal, opened, onEvent }) {
  return new Promise((resolve) => {
    let received = false;
    const idle = idleTimer(() => socket.close());
    const stop = () => socket.close();
    signal.addEventListener("abort", stop, { once: true });
    socket.onopen = opened;
    socket.onmessage = ({ data }) => { received = true; idle.reset(); onEvent({ data }); };
    socket.onclose = ({ code }) => {
      idle.stop();
      signal.removeEventListener("abort", stop);
      resolve(received || NORMAL_CLOSE_CODES.has(code));
    };
  });
}

export function sseTransport(api, jobId) {
  return async ({ from, signal, opened, onEvent }) => {
    const silence = new AbortController();
    const idle = idleTimer(() => silence.abort());
    try {
      const response = await api.open(path`api/v1/jobs/${jobId}/events`, {
        headers: { Accept: "text/event-stream", "Last-Event-ID": String(from) },
        signal: AbortSignal.any([signal, silence.signal]),
      });
      opened();
      const parser = new EventParser();
      for await (const text of response.body.pipeThrough(new TextDecoderStream())) {
        idle.reset();
        parser.push(text, onEvent);
      }
    } finally {
      idle.stop();
    }
  };
}

/** Closes connections without traffic: heartbeats arrive more often, so the connection is dead. */
function idleTimer(onIdle) {
  let timer = setTimeout(onIdle, IDLE_TIMEOUT_MS);
  return {
    reset() {
      clearTimeout(timer);
      timer = setTimeout(onIdle, IDLE_TIMEOUT_MS);
    },
    stop: () => clearTimeout(timer),
  };
}
