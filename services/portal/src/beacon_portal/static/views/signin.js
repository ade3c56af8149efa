// The door: a key, and whether this browser shall remember it.

import { complain, el, field } from "../dom.js";
import { notice, pageHead } from "../parts.js";

const HINT = "It was printed when Beacon first started, and is in credentials.json. An administrator can make others.";

export function signInView({ reason, signIn }) {
  const key = el("input", { type: "password", name: "key", autocomplete: "current-password", required: true });
  const remember = el("input", { type: "checkbox", name: "remember" });
  const said = notice();
  const enter = el("button", { class: "primary" }, "Sign in");
  const form = el("form", { class: "panel stack", novalidate: true, onsubmit: submit },
    el("input", { type: "text", autocomplete: "username", value: "Beacon", hidden: true }), // for password managers
    field("API key", key, { hint: HINT }),
    el("label", { class: "check" }, remember, "Remember it in this browser"),
    el("div", { class: "actions" }, enter),
    said.node);
  if (reason) said.say(reason, "warn");

  async function submit(event) {
    event.preventDefault();
    complain(key, key.value.trim() ? null : "Enter a key.");
    if (!key.value.trim()) return key.focus();
    enter.disabled = true;
    try {
      await signIn(key.value.trim(), remember.checked);
    } catch (error) {
      if (error.status === 401) complain(key, "This key is not known, or it has been revoked.");
      else said.fail(error);
      key.focus();
    } finally {
      enter.disabled = false;
    }
    return undefined;
  }

  return { title: "Sign in", node: el("div", { class: "narrow" }, pageHead("Sign in"), form) };
}
