// Administration: queues, backends, dead letters, users, audit log.

import { auditPart } from "../admin/audit.js";
import { backendsPart } from "../admin/backends.js";
import { deadLettersPart } from "../admin/dead-letters.js";
import { runtimePart } from "../admin/runtime.js";
import { usersPart } from "../admin/users.js";
import { el } from "../dom.js";
import { pageHeader } from "../components.js";

const PARTS = {
  runtime: ["Runtime", runtimePart],
  backends: ["Backends", backendsPart],
  dead: ["Dead letters", deadLettersPart],
  users: ["Users", usersPart],
  audit: ["Audit log", auditPart],
};

export function adminView(context) {
  const part = context.params.part ?? "runtime";
  if (!context.session.isAdmin || !PARTS[part]) {
    const text = el("p", {}, context.session.isAdmin ? "This page does not exist." : "This page needs an administrator key.");
    return { title: "Admin", node: el("div", {}, pageHeader("Admin"), text) };
  }
  const [title, open] = PARTS[part];
  const tabs = el("nav", { class: "segments", "aria-label": "Administration" },
    Object.entries(PARTS).map(([name, [label]]) => {
      return el("a", { href: `#/admin/${name}`, "aria-current": name === part ? "page" : null }, label);
    }));
  return { title, node: el("div", { class: "admin" }, pageHeader(title, tabs), open(context)) };
}
