// Pages for an unknown address and for a server that is not ready.

import { button, el } from "../dom.js";
import { pageHeader } from "../components.js";
import { problemText } from "../labels.js";

export function notFoundView({ problem, retry }) {
  if (!problem) {
    const text = el("p", {}, "This page does not exist. ", el("a", { href: "#/jobs" }, "Go to your jobs"), ".");
    return { title: "Not found", node: el("div", { class: "narrow" }, pageHeader("Not found"), text) };
  }
  const node = el("div", { class: "narrow" },
    pageHeader("Beacon is not ready"),
    el("p", { class: "notice", "data-tone": "bad" }, problemText(problem)),
    el("div", { class: "actions" }, button("Try again", retry, { class: "primary" })));
  return { title: "Not ready", node };
}
