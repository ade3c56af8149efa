// Client of the public API: one key, JSON, problem documents.

import { updateClockSkew } from "./clock.js";

const BASE = new URL(".", document.baseURI);

/** An error response. `code` is stable; `errors` name the fields. */
export class ApiError extends Error {
  constructor(status, problem, retryAfter) {
    super(problem.detail ?? problem.title ?? `the server responded with status ${status}`);
    this.status = status;
    this.code = problem.code ?? `http_${status}`;
    this.problem = problem;
    this.errors = problem.errors ?? [];
    this.retryAfter = problem.retry_after_s ?? retryAfter;
  }

  /** The route does not exist on this server. */
  get absent() {
    return this.status === 404 || this.status === 405 || this.status === 501;
  }
}

/** No response from the server. */
export class NetworkError extends Error {
  constructor(cause) {
    super("The server does not respond. Nothing is lost; this page keeps trying.", { cause });
  }
}

export class Api {
  #session;
  #onReachable;
  #onUnauthorised;

  /** `onReachable(bool)` is called after every request; `onUnauthorised()` when the key is rejected. */
  constructor(session, { onReachable, onUnauthorised }) {
    this.#session = session;
    this.#onReachable = onReachable;
    this.#onUnauthorised = onUnauthorised;
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

  /**
   * The response itself, for streams.
   *
   * @param {string} path
   * @param {{method?: string, headers?: Record<string, string>, body?: string, signal?: AbortSignal, key?: string,
   *   cache?: RequestCache}} [options]
   */
  async open(path, { method = "GET", headers = {}, body, signal, key, cache = "no-store" } = {}) {
    const sentAt = Date.now();
    let response;
    try {
      const authorization = `Bearer ${key ?? this.#session.key}`;
      response = await fetch(new URL(path, BASE), {
        method, body, signal, headers: { Authorization: authorization, ...headers }, cache, credentials: "omit",
      });
    } catch (error) {
      if (signal?.aborted) throw error;
      this.#onReachable(false);
      throw new NetworkError(error);
    }
    updateClockSkew(response, sentAt);
    this.#onReachable(![502, 503, 504].includes(response.status) || isJson(response));
    if (response.status === 401 && !key) this.#onUnauthorised();
    if (!response.ok) throw await toApiError(response);
    return response;
  }

  socketAddress(path) {
    const address = new URL(path, BASE);
    address.protocol = address.protocol.replace("http", "ws");
    return address;
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {unknown} body
   * @param {{headers?: Record<string, string>, signal?: AbortSignal, key?: string}} [options]
   */
  async #json(method, path, body, { headers, signal, key } = {}) {
    /** @type {Record<string, string>} */
    const contentType = body === undefined ? {} : { "Content-Type": "application/json" };
    const response = await this.open(path, {
      method, signal, key, body: body === undefined ? undefined : JSON.stringify(body),
      headers: { Accept: "application/json", ...contentType, ...headers },
    });
    return isJson(response) ? response.json() : null;
  }
}

function isJson(response) {
  return (response.headers.get("content-type") ?? "").includes("json");
}

async function toApiError(response) {
  const retryAfter = Number.parseFloat(response.headers.get("retry-after")) || undefined;
  let problem = {};
  if (isJson(response)) problem = await response.json().catch(() => ({}));
  return new ApiError(response.status, problem, retryAfter);
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

/** A job with all of its executions: its view has the first ones, pages have the others. */
export async function fetchJob(api, id, signal) {
  const job = await api.get(path`api/v1/jobs/${id}`, { signal });
  while (job.executions_cursor) {
    const wanted = query({ cursor: job.executions_cursor, limit: 500, outputs: false });
    const page = await api.get(path`api/v1/jobs/${id}/executions` + wanted, { signal });
    for (const execution of page.executions) {
      job.executions.push({ ...execution, withoutOutput: execution.state === "completed" });
    }
    job.executions_cursor = page.next_cursor;
  }
  return job;
}

const MAX_EMPTY_PAGES = 5;

/** The first pages of a list, joined, and the cursor of what follows them. A search may have empty pages. */
export async function fetchPages(api, address, name, { pages, signal, ...wanted }) {
  const found = [];
  let cursor;
  let answer;
  for (let page = 0; page < pages || (!found.length && page < MAX_EMPTY_PAGES); page += 1) {
    answer = await api.get(address + query({ ...wanted, cursor }), { signal });
    found.push(...answer[name]);
    cursor = answer.next_cursor;
    if (!cursor) break;
  }
  return { found, cursor, answer };
}
