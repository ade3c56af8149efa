// The frame of every page: navigation, account menu, theme, connection state.

import { button, el, setAttr, setText } from "./dom.js";
import { browserStorage } from "./storage.js";
import { count, sentenceCase } from "./labels.js";

/** An element of index.html. */
function byId(id) {
  return /** @type {HTMLElement} */ (document.getElementById(id));
}

export class Shell {
  #session;
  #signOut;
  #reachable = true;

  constructor(session, signOut) {
    this.#session = session;
    this.#signOut = signOut;
    byId("skip-link").addEventListener("click", (event) => {
      event.preventDefault(); // the hash belongs to the routes
      byId("main").focus();
    });
  }

  show({ node, title }, path) {
    byId("main").replaceChildren(node);
    document.title = `${title} · Beacon`;
    for (const link of byId("main-nav").querySelectorAll("a")) {
      const here = path.startsWith(link.hash.slice(1));
      setAttr(link, "aria-current", here ? "page" : null);
    }
    window.scrollTo(0, 0);
    node.querySelector("h1")?.focus({ preventScroll: true });
  }

  /** Show or hide what only a signed-in user sees. */
  updateFrame() {
    const { me } = this.#session;
    setAttr(document.body, "data-signed-in", Boolean(me));
    setAttr(byId("main-nav"), "hidden", !me);
    setAttr(byId("admin-link"), "hidden", !this.#session.isAdmin);
    setAttr(byId("account-button"), "hidden", !me);
    if (me) {
      setText(byId("account-button"), me.name ?? "Account");
      if (!byId("account").matches(":popover-open")) byId("account").replaceChildren(...this.#account(me));
    }
  }

  setReachable(reachable) {
    if (reachable === this.#reachable) return;
    this.#reachable = reachable;
    setAttr(byId("link-state"), "data-tone", reachable ? null : "bad");
    setText(byId("link-state"), reachable ? "" : "Reconnecting…");
    if (reachable) this.announce("Connected");
  }

  announce(text) {
    setText(byId("announcer"), text);
  }

  #account(me) {
    const credit = me.credit === undefined || me.credit === null ? null : el("p", {}, count(me.credit, "credit"));
    return [
      el("p", {}, el("strong", {}, me.name ?? "Signed in")),
      el("p", { class: "muted" }, `${sentenceCase(me.tier)} tier`),
      credit,
      el("a", { href: "#/limits", onclick: () => byId("account").hidePopover() }, "Limits"),
      el("a", { href: "#/webhooks", onclick: () => byId("account").hidePopover() }, "Webhooks"),
      el("a", { href: "#/usage", onclick: () => byId("account").hidePopover() }, "Usage"),
      themeChoice(),
      button("Sign out", () => { byId("account").hidePopover(); this.#signOut(); }, { class: "quiet" }),
    ];
  }
}

function themeChoice() {
  const chosen = document.documentElement.dataset.theme ?? "system";
  const options = ["system", "light", "dark"].map((theme) => el("label", {},
    el("input", { type: "radio", name: "theme", value: theme, checked: theme === chosen, onchange: () => chooseTheme(theme) }),
    sentenceCase(theme)));
  return el("fieldset", { class: "segments" }, el("legend", {}, "Theme"), options);
}

function chooseTheme(theme) {
  if (theme === "system") {
    delete document.documentElement.dataset.theme;
    browserStorage.remove("beacon.theme");
  } else {
    document.documentElement.dataset.theme = theme;
    browserStorage.set("beacon.theme", theme);
  }
}
