// The public API, as any client sees it: one key, JSON, problem documents.

import { learnSkew } from "./clock.js";

const BASE = new URL(".", document.baseURI);

/** The server said no. `code` is stable; `errors` name the fields. */
export class Refused extends Error {
  constructor(status, problem, retryAfter) {
    super(problem.detail ?? problem.title ?? `the server answered ${status}`);
    this.status = status;
    this.code = problem.code ?? `http_${status}`;
    this.problem = problem;
    this.errors = problem.errors ?? [];
    this.retryAfter = problem.retry_after_s ?? retryAfter;
  }

  /** The route is not there, or has nothing behind it. */
  get absent() {
    return this.status === 404 || this.status === 405 || this.status === 501;
  }
}

/** The server did not answer. */
export class Unreachable extends Error {
  constructor(cause) {
    super("The server does not answer. Nothing is lost; this page keeps trying.", { cause });
  }
}

export class Api {
  #session;
  #reached;
  #unauthorised;

  /** `reached(bool)` hears of every answer and every silence; `unauthorised()` of a key that no longer works. */
  constructor(session, { reached, unauthorised }) {
    this.#session = session;
    this.#reached = reached;
    this.#unauthorised = unauthorised;
  }

  get(path, options) {
    return this.#json("GET", path, undefined, options);
  }

  post(path, body, options) {
    return this.#json("POST", path, body, options);
  }

  delete(path, options) {
    return this.#json("DELETE", path, undefined, options);
  }

  /** The bare response, for streams. */
  async open(path, { method = "GET", headers = {}, body, signal, key } = {}) {
    const sentAt = Date.now();
    let response;
    try {
      const authorization = `Bearer ${key ?? this.#session.key}`;
      response = await fetch(new URL(path, BASE), {
        method, body, signal, headers: { Authorization: authorization, ...headers }, cache: "no-store", credentials: "omit",
      });
    } catch (error) {
      if (signal?.aborted) throw error;
      this.#reached(false);
      throw new Unreachable(error);
    }
    learnSkew(response, sentAt);
    this.#reached(![502, 503, 504].includes(response.status) || isJson(response));
    if (response.status === 401 && !key) this.#unauthorised();
    if (!response.ok) throw await refusal(response);
    return response;
  }

  socketAddress(path) {
    const address = new URL(path, BASE);
    address.protocol = address.protocol.replace("http", "ws");
    return address;
  }

  async #json(method, path, body, { headers, signal, key } = {}) {
    const sent = body === undefined ? {} : { "Content-Type": "application/json" };
    const response = await this.open(path, {
      method, signal, key, body: body === undefined ? undefined : JSON.stringify(body),
      headers: { Accept: "application/json", ...sent, ...headers },
    });
    return isJson(response) ? response.json() : null;
  }
}

function isJson(response) {
  return (response.headers.get("content-type") ?? "").includes("json");
}

async function refusal(response) {
  const retryAfter = Number.parseFloat(response.headers.get("retry-after")) || undefined;
  let problem = {};
  if (isJson(response)) problem = await response.json().catch(() => ({}));
  return new Refused(response.status, problem, retryAfter);
}

/** A path with its parts escaped: path`/api/v1/jobs/${id}` */
export function path(strings, ...parts) {
  return strings.reduce((made, string, index) => {
    return made + string + (index < parts.length ? encodeURIComponent(parts[index]) : "");
  }, "").replace(/^\//, "");
}

export function query(values) {
  const given = Object.entries(values).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return given.length ? `?${new URLSearchParams(given)}` : "";
}

/** The first pages of a list, joined, and the cursor of what follows them. */
export async function pagesOf(api, address, name, { pages, signal, ...wanted }) {
  const found = [];
  let cursor;
  let answer;
  for (let page = 0; page < pages; page += 1) {
    answer = await api.get(address + query({ ...wanted, cursor }), { signal });
    found.push(...answer[name]);
    cursor = answer.next_cursor;
    if (!cursor) break;
  }
  return { found, cursor, answer };
}
