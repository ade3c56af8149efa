// Who is signed in on this tab. The key lives in the browser's storage and in the Authorization header, nowhere else.

const KEY = "beacon.key";
const DRAFT = "beacon.draft.";
const OWNER = "beacon.draft-owner";

export class Session {
  me = null;

  get key() {
    return sessionStorage.getItem(KEY) ?? localStorage.getItem(KEY);
  }

  get isAdmin() {
    return this.me?.scopes?.includes("admin") ?? false;
  }

  begin(key, remember, me) {
    this.lapse();
    (remember ? localStorage : sessionStorage).setItem(KEY, key);
    if (sessionStorage.getItem(OWNER) !== me.user_id) this.#dropDrafts();
    sessionStorage.setItem(OWNER, me.user_id);
    this.me = me;
  }

  /** The same user goes on with another key. */
  adopt(key) {
    (sessionStorage.getItem(KEY) === null ? localStorage : sessionStorage).setItem(KEY, key);
  }

  /** The key is gone, what was being written is not: the same user may come back with another key. */
  lapse() {
    this.me = null;
    sessionStorage.removeItem(KEY);
    localStorage.removeItem(KEY);
  }

  end() {
    this.lapse();
    this.#dropDrafts();
  }

  /** What was being written in this tab: it survives a reload and a restart of the server. */
  draft(name) {
    try {
      return JSON.parse(sessionStorage.getItem(DRAFT + name)) ?? {};
    } catch {
      return {};
    }
  }

  keepDraft(name, value) {
    sessionStorage.setItem(DRAFT + name, JSON.stringify(value));
  }

  dropDraft(name) {
    sessionStorage.removeItem(DRAFT + name);
  }

  #dropDrafts() {
    for (const name of Object.keys(sessionStorage)) if (name.startsWith(DRAFT)) sessionStorage.removeItem(name);
  }
}
