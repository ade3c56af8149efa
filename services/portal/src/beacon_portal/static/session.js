// The signed-in user of this tab. The key is kept in browser storage and sent in the Authorization header only.

import { browserStorage, tabStorage } from "./storage.js";

const KEY = "beacon.key";
const DRAFT = "beacon.draft.";
const DRAFT_OWNER = "beacon.draft-owner";

export class Session {
  /** @type {any} */
  me = null;

  get key() {
    return tabStorage.get(KEY) ?? browserStorage.get(KEY);
  }

  get isAdmin() {
    return this.me?.scopes?.includes("admin") ?? false;
  }

  begin(key, remember, me) {
    this.expire();
    (remember ? browserStorage : tabStorage).set(KEY, key);
    if (tabStorage.get(DRAFT_OWNER) !== me.user_id) this.#dropDrafts();
    tabStorage.set(DRAFT_OWNER, me.user_id);
    this.me = me;
  }

  /** Replace the key of the same user. */
  replaceKey(key) {
    (tabStorage.get(KEY) === null ? browserStorage : tabStorage).set(KEY, key);
  }

  /** Forget the key but keep drafts: the same user may sign in with another key. */
  expire() {
    this.me = null;
    tabStorage.remove(KEY);
    browserStorage.remove(KEY);
  }

  end() {
    this.expire();
    this.#dropDrafts();
  }

  /** Unsent form content of this tab. It survives a reload and a restart of the server. */
  draft(name) {
    try {
      return JSON.parse(tabStorage.get(DRAFT + name) ?? "null") ?? {};
    } catch {
      return {};
    }
  }

  keepDraft(name, value) {
    tabStorage.set(DRAFT + name, JSON.stringify(value));
  }

  dropDraft(name) {
    tabStorage.remove(DRAFT + name);
  }

  #dropDrafts() {
    for (const name of tabStorage.names()) if (name.startsWith(DRAFT)) tabStorage.remove(name);
  }
}
