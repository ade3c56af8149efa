// Users: tiers, credit and keys.

import { pagesOf, path } from "../api.js";
import { Rows, attr, button, choice, complain, el, field, table, write } from "../dom.js";
import { actionButton, attempt, notice, panel } from "../parts.js";
import { poll } from "../stream.js";
import { titled } from "../words.js";
import { openKeys, showKey } from "./keys.js";

const EVERY_S = 10;
const TIERS = ["free", "supporter", "premium", "creator", "admin"].map((tier) => [tier, titled(tier)]);

export function usersPart(context) {
  const { api, shell, signal } = context;
  const said = notice();
  const done = notice();
  const list = table("Users", ["User", "Tier", ["Credit", "number"], ["Give credit", "number"], ["Actions", "hushed"]]);
  const rows = new Rows(list.body, (user) => userRow(user, { change, keys: () => openKeys(context, user) }));
  const more = button("Show more", () => { pages += 1; refresh(); }, { class: "quiet", hidden: true });
  let pages = 1;

  const refresh = poll(EVERY_S, signal, async () => {
    const load = () => pagesOf(api, "admin/users", "users", { limit: 100, pages, signal });
    const { found, cursor } = await attempt(said, load, "The list of users");
    rows.show(found, (user) => user.id);
    attr(more, "hidden", !cursor);
  });

  /** Changes something about a user: `change("/credit", {amount: 5}, user, "…")`. */
  async function change(suffix, body, user, words) {
    try {
      await api.post(path`admin/users/${user.id}` + suffix, body);
      done.say(words, "ok");
      shell.announce(words);
    } catch (error) {
      done.fail(error);
    }
    refresh();
  }

  async function add(name, tier) {
    try {
      const made = await api.post("admin/users", { name, tier });
      done.say("");
      showKey(made.name, made.key);
      return true;
    } catch (error) {
      done.fail(error);
      return false;
    } finally {
      refresh();
    }
  }

  return el("div", {}, said.node, done.node, list.node, el("div", { class: "actions" }, more), panel("New user", userForm(add)));
}

function userForm(add) {
  const name = el("input", { required: true, maxlength: 100, autocomplete: "off" });
  const tier = choice(TIERS);
  const submit = async (event) => {
    event.preventDefault();
    const given = name.value.trim();
    complain(name, given ? null : "Give a name.");
    if (!given) return name.focus();
    if (await add(given, tier.value)) name.value = "";
    return undefined;
  };
  return el("form", { class: "fields", novalidate: true, onsubmit: submit },
    field("Name", name), field("Tier", tier), el("div", { class: "actions" }, el("button", { class: "primary" }, "Make a user")));
}

function userRow(user, { change, keys }) {
  let current = user;
  const setTier = () => change("", { tier: tier.value }, current, `${user.name} is ${tier.value} now.`);
  const tier = choice(TIERS, { "aria-label": `Tier of ${user.name}`, onchange: setTier });
  const credit = el("td", { class: "number" });
  const amount = el("input", { type: "number", value: 10, "aria-label": `Credit for ${user.name}`, class: "short" });
  const give = actionButton("Give", () => {
    return change("/credit", { amount: Number(amount.value) }, current, `${user.name} was given ${amount.value}.`);
  }, { class: "small" });
  const toggle = actionButton("", () => {
    const disabled = !current.disabled_at;
    return change("", { disabled }, current, `${user.name} is ${disabled ? "disabled" : "enabled"} now.`);
  }, { class: "small quiet" });
  const note = el("small", { class: "mono muted" });
  const openKeysOf = button("Keys", keys, { class: "small quiet", "aria-label": `Keys of ${user.name}` });
  const node = el("tr", {},
    el("th", { scope: "row" }, el("span", { class: "strong" }, user.name), note),
    el("td", {}, tier), credit,
    el("td", { class: "number" }, el("span", { class: "actions end-inline" }, amount, give)),
    el("td", { class: "number" }, el("span", { class: "actions end-inline" }, openKeysOf, toggle)));
  const update = (next) => {
    current = next;
    if (document.activeElement !== tier) tier.value = next.tier;
    write(credit, next.credit.toLocaleString());
    write(toggle, next.disabled_at ? "Enable" : "Disable");
    write(note, next.disabled_at ? `${next.id} · disabled` : next.id);
  };
  return { node, update };
}
