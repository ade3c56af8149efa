// A user's keys in a dialog: make one, see it once, rotate one, revoke one.

import { path } from "../api.js";
import { ago } from "../clock.js";
import { Rows, el, uniqueId, write } from "../dom.js";
import { actionButton, notice } from "../parts.js";

/** A key that is shown this once. */
export function showKey(name, key) {
  const value = el("input", { value: key, readonly: true, class: "mono", "aria-label": "Key" });
  open(`A key for ${name}`, el("p", {}, "It is shown this once. Keep it where it is safe."), value);
  value.select();
}

export function openKeys({ api, session, signal }, user) {
  const said = notice();
  const list = el("ul", { class: "keys" });
  const rows = new Rows(list, (key) => keyRow(key, { rotate, revoke }));
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
      said.fail(error);
    }
  }

  const remove = (key) => api.delete(`${base}/${encodeURIComponent(key.id)}`);
  const revoke = (key) => perform(() => remove(key));

  /** The new key comes first: if something breaks in between, both work and nobody is locked out. */
  const rotate = (key) => perform(async () => {
    const made = await api.post(base, { name: key.name, scopes: key.scopes });
    showKey(user.name, made.key);
    if (session.key?.startsWith(key.hint)) session.replaceKey(made.key);
    await remove(key);
  });
  const scopes = user.tier === "admin" ? ["user", "admin"] : ["user"];
  const make = actionButton("New key", () => perform(async () => {
    const { key } = await api.post(base, { scopes });
    showKey(user.name, key);
  }), { class: "small" });
  open(`Keys of ${user.name}`, said.node, list, el("div", { class: "actions" }, make));
  perform(() => {});
}

function open(title, ...children) {
  const heading = uniqueId("dialog");
  const dialog = el("dialog", { "aria-labelledby": heading, onclose: () => dialog.remove() },
    el("h2", { id: heading }, title), ...children,
    el("form", { method: "dialog", class: "actions end" }, el("button", { class: "quiet" }, "Close")));
  document.body.append(dialog);
  dialog.showModal();
}

function keyRow(key, { rotate, revoke }) {
  const state = el("small", { class: "muted" });
  const anew = actionButton("Rotate", () => rotate(key), { class: "small", "aria-label": `Rotate ${key.hint}` });
  const away = actionButton("Revoke", () => revoke(key), { class: "small danger", "aria-label": `Revoke ${key.hint}` });
  const node = el("li", {}, el("span", { class: "mono" }, `${key.hint}…`), el("small", {}, key.scopes.join(", ")), state,
    el("span", { class: "actions end-inline" }, anew, away));
  const update = (next) => {
    write(state, next.revoked_at ? `revoked ${ago(next.revoked_at)}` : next.created_at ? `made ${ago(next.created_at)}` : "");
    anew.hidden = away.hidden = Boolean(next.revoked_at);
  };
  return { node, update };
}
