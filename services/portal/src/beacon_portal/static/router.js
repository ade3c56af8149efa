// Hash routes to views. The signal of a view aborts its requests and timers when the next view opens.

const ROUTES = [];

export function route(pattern, open) {
  const names = [];
  const source = pattern.replace(/:(\w+)/g, (_, name) => { names.push(name); return "([^/]+)"; });
  ROUTES.push({ match: new RegExp(`^${source}$`), names, open });
}

export function currentRoute() {
  const [path, search = ""] = location.hash.replace(/^#/, "").split("?");
  return { path: path || "/jobs", search: new URLSearchParams(search) };
}

export function go(path) {
  location.hash = path;
}

function findRoute(path) {
  for (const { match, names, open } of ROUTES) {
    const values = match.exec(path)?.slice(1).map(decoded);
    if (values && !values.includes(null)) {
      return { open, params: Object.fromEntries(names.map((name, index) => [name, values[index]])) };
    }
  }
  return null;
}

/** The text of an escaped part of the address; null when it is not valid. */
function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return null;
  }
}

/** `show({node, title}, path)` displays a view; `notFound` opens the view of unknown paths. */
export class Router {
  #controller = new AbortController();
  #context;
  #notFound;
  #show;

  constructor(context, { notFound, show }) {
    this.#context = context;
    this.#notFound = notFound;
    this.#show = show;
  }

  open() {
    const { path, search } = currentRoute();
    this.#controller.abort();
    this.#controller = new AbortController();
    const { open, params } = findRoute(path) ?? { open: this.#notFound, params: {} };
    const context = { ...this.#context, params, search, signal: this.#controller.signal };
    this.#show(open(context), path);
  }

  close() {
    this.#controller.abort();
  }
}
