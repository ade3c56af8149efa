// The sign-in form: an API key, and whether this browser keeps it.

import { el, field, setError } from "../dom.js";
import { createNotice, pageHeader } from "../components.js";

const HINT = "Printed at the first start of Beacon and stored in credentials.json. An administrator can create more.";

export function signInView({ reason, signIn }) {
  const key = el("input", { type: "password", name: "key", autocomplete: "current-password", required: true });
  const remember = el("input", { type: "checkbox", name: "remember" });
  const notice = createNotice();
  const signInButton = el("button", { class: "primary" }, "Sign in");
  const form = el("form", { class: "panel stack", novalidate: true, onsubmit: submit },
    el("input", { type: "text", autocomplete: "username", value: "Beacon", hidden: true }), // for password managers
    field("API key", key, { hint: HINT }),
    el("label", { class: "check" }, remember, "Remember the key in this browser"),
    el("div", { class: "actions" }, signInButton),
    notice.node);
  if (reason) notice.show(reason, "warn");

  async function submit(event) {
    event.preventDefault();
    setError(key, key.value.trim() ? null : "Enter a key.");
    if (!key.value.trim()) return key.focus();
    signInButton.disabled = true;
    try {
      await signIn(key.value.trim(), remember.checked);
    } catch (error) {
      if (error.status === 401) setError(key, "This key is unknown or has been revoked.");
      else notice.showError(error);
      key.focus();
    } finally {
      signInButton.disabled = false;
    }
    return undefined;
  }

  return { title: "Sign in", node: el("div", { class: "narrow" }, pageHeader("Sign in"), form) };
}
