// Users: tiers, credit and keys.

import { path } from "../api.js";
import { Rows, choice, complain, el, field, table, write } from "../dom.js";
import { actionButton, attempt, notice, panel } from "../parts.js";
import { poll } from "../stream.js";
import { titled } from "../words.js";

const EVERY_S = 10;
const TIERS = ["free", "supporter", "premium", "creator", "admin"];

export function usersPart({ api, shell, signal }) {
  const said = notice();
  const done = notice();
  const list = table("Users", ["User", "Tier", ["Credit", "number"], ""]);
  const rows = new Rows(list.body, (user) => userRow(user, give));
  const refresh = poll(EVERY_S, signal, async () => {
    const answer = await attempt(said, () => api.get("admin/users", { signal }), "The list of users");
    rows.show(answer.users, (user) => user.id);
  });

  async function change(work, words) {
    try {
      const answer = await work();
      done.say(words(answer), "ok");
      shell.announce(words(answer));
    } catch (error) {
      done.fail(error);
    }
    refresh();
  }

  const give = (user, amount) => change(() => api.post(path`admin/users/${user.id}/credit`, { amount }), () => `${user.name} was given ${amount}.`);
  const name = el("input", { required: true, maxlength: 100 });
  const tier = choice(TIERS.map((value) => [value, titled(value)]), {});
  const form = el("form", { class: "fields", novalidate: true, onsubmit: (event) => {
    event.preventDefault();
    complain(name, name.value.trim() ? null : "Give a name.");
    if (!name.value.trim()) return name.focus();
    return change(() => api.post("admin/users", { name: name.value.trim(), tier: tier.value }), ({ key }) => `Made. The key is shown once: ${key}`);
  } }, field("Name", name), field("Tier", tier), el("div", { class: "actions" }, el("button", { class: "primary" }, "Make a user")));

  return el("div", {}, said.node, done.node, list.node, el("div", { class: "gap" }), panel("New user", form));
}

function userRow(user, give) {
  const tier = el("td");
  const credit = el("td", { class: "number" });
  const amount = el("input", { type: "number", value: 10, "aria-label": `Credit for ${user.name}`, class: "short" });
  const node = el("tr", {},
    el("th", { scope: "row" }, el("span", { class: "strong" }, user.name), el("small", { class: "mono muted" }, user.id)),
    tier, credit,
    el("td", { class: "number" }, el("span", { class: "actions end-inline" }, amount, actionButton("Give", () => give(user, Number(amount.value)), { class: "small" }))));
  return { node, update: (next) => { write(tier, titled(next.tier)); write(credit, next.credit); } };
}
