// Who is signed in on this tab. The key lives in the browser's storage and in the Authorization header, nowhere else.

const KEY = "beacon.key";
const DRAFT = "beacon.draft.";

export class Session {
  me = null;
  #store = sessionStorage;

  constructor() {
    if (localStorage.getItem(KEY)) this.#store = localStorage;
  }

  get key() {
    return this.#store.getItem(KEY);
  }

  get isAdmin() {
    return this.me?.scopes?.includes("admin") ?? false;
  }

  begin(key, remember) {
    this.end();
    this.#store = remember ? localStorage : sessionStorage;
    this.#store.setItem(KEY, key);
  }

  end() {
    this.me = null;
    for (const store of [sessionStorage, localStorage]) {
      for (const name of Object.keys(store)) if (name === KEY || name.startsWith(DRAFT)) store.removeItem(name);
    }
  }

  /** What was being written, kept where the key is kept: it survives a reload and a restart of the server. */
  draft(name) {
    try {
      return JSON.parse(this.#store.getItem(DRAFT + name)) ?? {};
    } catch {
      return {};
    }
  }

  keepDraft(name, value) {
    this.#store.setItem(DRAFT + name, JSON.stringify(value));
  }

  dropDraft(name) {
    this.#store.removeItem(DRAFT + name);
  }
}
