// A user's keys in a dialog: create, rotate, revoke.

import { path } from "../api.js";
import { formatAge } from "../clock.js";
import { KeyedRows, el, setText } from "../dom.js";
import { actionButton, createNotice, openDialog, showSecret } from "../components.js";

export function showKey(name, key) {
  showSecret(`New key for ${name}`, "Key", key);
}

export function openKeys({ api, session, signal }, user) {
  const notice = createNotice();
  const list = el("ul", { class: "keys" });
  const rows = new KeyedRows(list, (key) => keyRow(key, { rotate, revoke }));
  const base = path`admin/users/${user.id}/keys`;

  async function refresh() {
    const { keys } = await api.get(base, { signal });
    rows.show(keys, (key) => key.id);
  }

  async function perform(work) {
    try {
      await work();
      await refresh();
    } catch (error) {
      notice.showError(error);
    }
  }

  const remove = (key) => api.delete(`${base}/${encodeURIComponent(key.id)}`);
  const revoke = (key) => perform(() => remove(key));

  /** The new key is created before the old one is revoked: a failure in between locks no user out. */
  const rotate = (key) => perform(async () => {
    const made = await api.post(base, { name: key.name, scopes: key.scopes });
    showKey(user.name, made.key);
    if (session.key?.startsWith(key.hint)) session.replaceKey(made.key);
    await remove(key);
  });
  const create = actionButton("New key", () => perform(async () => {
    const { keys } = await api.get(base, { signal });
    // A new key has the scopes that the user's keys have.
    const scopes = keys.find((key) => !key.revoked_at)?.scopes ?? ["user"];
    const { key } = await api.post(base, { scopes });
    showKey(user.name, key);
  }), { class: "small" });
  openDialog(`Keys of ${user.name}`, notice.node, list, el("div", { class: "actions" }, create));
  perform(() => {});
}

function keyRow(key, { rotate, revoke }) {
  const state = el("small", { class: "muted" });
  const rotateButton = actionButton("Rotate", () => rotate(key), { class: "small", "aria-label": `Rotate ${key.hint}` });
  const revokeButton = actionButton("Revoke", () => revoke(key), { class: "small danger", "aria-label": `Revoke ${key.hint}` });
  const node = el("li", {}, el("span", { class: "mono" }, `${key.hint}…`), el("small", {}, key.scopes.join(", ")), state,
    el("span", { class: "actions end-inline" }, rotateButton, revokeButton));
  const update = (next) => {
    setText(state, next.revoked_at ? `revoked ${formatAge(next.revoked_at)}` : next.created_at ? `created ${formatAge(next.created_at)}` : "");
    rotateButton.hidden = revokeButton.hidden = Boolean(next.revoked_at);
  };
  return { node, update };
}
