// For administrators: how the queues are, what died, who may do what.

import { deadPart } from "../admin/dead.js";
import { runtimePart } from "../admin/runtime.js";
import { usersPart } from "../admin/users.js";
import { el } from "../dom.js";
import { pageHead } from "../parts.js";

const PARTS = { runtime: ["Runtime", runtimePart], dead: ["Dead letters", deadPart], users: ["Users", usersPart] };

export function adminView(context) {
  const part = context.params.part ?? "runtime";
  if (!context.session.isAdmin || !PARTS[part]) {
    const text = el("p", {}, context.session.isAdmin ? "Nothing is at this address." : "This page needs an administrator's key.");
    return { title: "Admin", node: el("div", {}, pageHead("Admin"), text) };
  }
  const [title, open] = PARTS[part];
  const tabs = el("nav", { class: "segments", "aria-label": "Administration" },
    Object.entries(PARTS).map(([name, [label]]) => {
      return el("a", { href: `#/admin/${name}`, "aria-current": name === part ? "page" : null }, label);
    }));
  return { title, node: el("div", { class: "admin" }, pageHead(title, tabs), open(context)) };
}
