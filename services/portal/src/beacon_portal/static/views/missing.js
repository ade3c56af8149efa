// A place that is not there, or a server that does not answer yet.

import { button, el } from "../dom.js";
import { pageHead } from "../parts.js";
import { problemWords } from "../words.js";

export function missingView({ problem, again }) {
  if (!problem) {
    const text = el("p", {}, "Nothing is at this address. ", el("a", { href: "#/jobs" }, "Go to your jobs"), ".");
    return { title: "Not found", node: el("div", { class: "narrow" }, pageHead("Not found"), text) };
  }
  const node = el("div", { class: "narrow" },
    pageHead("Beacon is not ready"),
    el("p", { class: "notice", "data-tone": "bad" }, problemWords(problem)),
    el("div", { class: "actions" }, button("Try again", again, { class: "primary" })));
  return { title: "Not ready", node };
}
