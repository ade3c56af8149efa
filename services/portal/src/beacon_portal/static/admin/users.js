// Users: tiers, credit and keys.

import { fetchPages, path } from "../api.js";
import { KeyedRows, button, el, field, select, setAttr, setError, setText, table } from "../dom.js";
import { actionButton, createNotice, panel, reportErrors } from "../components.js";
import { poll } from "../follow.js";
import { count, sentenceCase } from "../labels.js";
import { openKeys, showKey } from "./keys.js";

const POLL_INTERVAL_S = 10;

export function usersPart(context) {
  const { api, shell, signal } = context;
  const notice = createNotice();
  const done = createNotice();
  const list = table("Users", ["User", "Tier", ["Credit", "number"], ["Add credit", "number"], ["Actions", "header-hidden"]]);
  const rows = new KeyedRows(list.body, (user) => userRow(user, { change, tiers, keys: () => openKeys(context, user) }));
  const more = button("Show more", () => { pages += 1; refresh(); }, { class: "quiet", hidden: true });
  const form = userForm(add);
  let tiers = [];
  let pages = 1;

  const refresh = poll(POLL_INTERVAL_S, signal, async () => {
    const load = async () => {
      if (!tiers.length) {
        tiers = tierOptions(await api.get("api/v1/tiers", { signal }));
        form.setTiers(tiers);
      }
      return fetchPages(api, "admin/users", "users", { limit: 100, pages, signal });
    };
    const { found, cursor } = await reportErrors(notice, load, "The list of users");
    rows.show(found, (user) => user.id);
    setAttr(more, "hidden", !cursor);
  });

  /** Change a user: `change("/credit", {amount: 5}, user, "…")`. */
  async function change(suffix, body, user, message) {
    try {
      await api.post(path`admin/users/${user.id}` + suffix, body);
      done.show(message, "ok");
      shell.announce(message);
    } catch (error) {
      done.showError(error);
    }
    refresh();
  }

  async function add(name, tier) {
    try {
      const made = await api.post("admin/users", { name, tier });
      done.show("");
      showKey(made.name, made.key);
      return true;
    } catch (error) {
      done.showError(error);
      return false;
    } finally {
      refresh();
    }
  }

  return el("div", {}, notice.node, done.node, list.node, el("div", { class: "actions" }, more), panel("New user", form.node));
}

/** The lowest tier first: that of most users. */
function tierOptions({ tiers }) {
  return tiers.map((tier) => [tier.name, sentenceCase(tier.name)]).reverse();
}

function userForm(add) {
  const name = el("input", { required: true, maxlength: 100, autocomplete: "off" });
  const tier = select([]);
  const submit = async (event) => {
    event.preventDefault();
    const given = name.value.trim();
    setError(name, given ? null : "Enter a name.");
    if (!given) return name.focus();
    if (await add(given, tier.value)) name.value = "";
    return undefined;
  };
  const node = el("form", { class: "fields", novalidate: true, onsubmit: submit },
    field("Name", name), field("Tier", tier), el("div", { class: "actions" }, el("button", { class: "primary" }, "Create user")));
  const setTiers = (tiers) => tier.replaceChildren(...select(tiers).children);
  return { node, setTiers };
}

function userRow(user, { change, tiers, keys }) {
  let current = user;
  const setTier = () => change("", { tier: tier.value }, current, `${user.name} is now in tier ${tier.value}.`);
  const tier = select(tiers, { "aria-label": `Tier of ${user.name}`, onchange: setTier });
  const credit = el("td", { class: "number" });
  const amount = el("input", { type: "number", value: 10, "aria-label": `Credit for ${user.name}`, class: "short" });
  const give = actionButton("Add", () => {
    return change("/credit", { amount: Number(amount.value) }, current, `${user.name} received ${count(Number(amount.value), "credit")}.`);
  }, { class: "small" });
  const toggle = actionButton("", () => {
    const disabled = !current.disabled_at;
    return change("", { disabled }, current, `${user.name} is ${disabled ? "disabled" : "enabled"}.`);
  }, { class: "small quiet" });
  const note = el("small", { class: "mono muted" });
  const jobs = el("a", { class: "button small quiet", href: `#/jobs?user=${user.id}`, "aria-label": `Jobs of ${user.name}` }, "Jobs");
  const openKeysOf = button("Keys", keys, { class: "small quiet", "aria-label": `Keys of ${user.name}` });
  const node = el("tr", {},
    el("th", { scope: "row" }, el("span", { class: "strong" }, user.name), note),
    el("td", {}, tier), credit,
    el("td", { class: "number" }, el("span", { class: "actions end-inline" }, amount, give)),
    el("td", { class: "number" }, el("span", { class: "actions end-inline" }, jobs, openKeysOf, toggle)));
  const update = (next) => {
    current = next;
    if (document.activeElement !== tier) {
      // A user may be in a tier that the configuration no longer has.
      if (![...tier.options].some((option) => option.value === next.tier)) tier.append(new Option(next.tier, next.tier));
      tier.value = next.tier;
    }
    setText(credit, next.credit.toLocaleString());
    setText(toggle, next.disabled_at ? "Enable" : "Disable");
    setText(note, next.disabled_at ? `${next.id} · disabled` : next.id);
  };
  return { node, update };
}
