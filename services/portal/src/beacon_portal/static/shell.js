// What surrounds every page: places, account, theme, and whether the server can be reached.

import { attr, button, el, write } from "./dom.js";
import { browserStorage } from "./storage.js";
import { count, titled } from "./words.js";

const byId = (id) => document.getElementById(id);

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

  show({ node, title }, place) {
    byId("main").replaceChildren(node);
    document.title = `${title} · Beacon`;
    for (const link of byId("places").querySelectorAll("a")) {
      const here = place.startsWith(link.getAttribute("href").slice(1));
      attr(link, "aria-current", here ? "page" : null);
    }
    window.scrollTo(0, 0);
    node.querySelector("h1")?.focus({ preventScroll: true });
  }

  /** The frame of a signed-in user, or the bare one. */
  frame() {
    const { me } = this.#session;
    attr(document.body, "data-signed-in", Boolean(me));
    attr(byId("places"), "hidden", !me);
    attr(byId("admin-place"), "hidden", !this.#session.isAdmin);
    attr(byId("account-button"), "hidden", !me);
    if (me) {
      write(byId("account-button"), me.name ?? "Account");
      if (!byId("account").matches(":popover-open")) byId("account").replaceChildren(...this.#account(me));
    }
  }

  reached(reachable) {
    if (reachable === this.#reachable) return;
    this.#reachable = reachable;
    attr(byId("link-state"), "data-tone", reachable ? null : "bad");
    write(byId("link-state"), reachable ? "" : "Reconnecting…");
    if (reachable) this.announce("Connected again");
  }

  announce(text) {
    write(byId("announcer"), text);
  }

  #account(me) {
    const credit = me.credit === undefined || me.credit === null ? null : el("p", {}, count(me.credit, "credit"));
    return [
      el("p", {}, el("strong", {}, me.name ?? "Signed in")),
      el("p", { class: "muted" }, `${titled(me.tier)} tier`),
      credit,
      themeChoice(),
      button("Sign out", () => { byId("account").hidePopover(); this.#signOut(); }, { class: "quiet" }),
    ];
  }
}

function themeChoice() {
  const chosen = document.documentElement.dataset.theme ?? "system";
  const options = ["system", "light", "dark"].map((theme) => el("label", {},
    el("input", { type: "radio", name: "theme", value: theme, checked: theme === chosen, onchange: () => chooseTheme(theme) }),
    titled(theme)));
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
