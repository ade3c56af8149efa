// Hash routes to views. A view lives until the next one: its signal ends whatever it had under way.

const ROUTES = [];

export function route(pattern, open) {
  const names = [];
  const source = pattern.replace(/:(\w+)/g, (_, name) => { names.push(name); return "([^/]+)"; });
  ROUTES.push({ match: new RegExp(`^${source}$`), names, open });
}

export function currentPlace() {
  const [place, search = ""] = location.hash.replace(/^#/, "").split("?");
  return { place: place || "/jobs", search: new URLSearchParams(search) };
}

export function go(place) {
  location.hash = place;
}

function findRoute(place) {
  for (const { match, names, open } of ROUTES) {
    const values = match.exec(place)?.slice(1).map(decoded);
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

/** `show({node, title})` puts a view on the page. */
export class Router {
  #leave = new AbortController();
  #context;
  #show;

  constructor(context, show) {
    this.#context = context;
    this.#show = show;
  }

  open() {
    const { place, search } = currentPlace();
    this.#leave.abort();
    this.#leave = new AbortController();
    const view = findRoute(place) ?? findRoute("/missing");
    const context = { ...this.#context, params: view.params, search, signal: this.#leave.signal };
    this.#show(view.open(context), place);
  }

  close() {
    this.#leave.abort();
  }
}
