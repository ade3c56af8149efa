// Puts the parts together and starts.

import { Api } from "./api.js";
import { Router, route } from "./router.js";
import { Session } from "./session.js";
import { Shell } from "./shell.js";
import { adminView } from "./views/admin.js";
import { jobView } from "./views/job.js";
import { jobsView } from "./views/jobs.js";
import { missingView } from "./views/missing.js";
import { queueView } from "./views/queue.js";
import { regionsView } from "./views/regions.js";
import { signInView } from "./views/signin.js";
import { submitView } from "./views/submit.js";

const session = new Session();
const shell = new Shell(session, signOut);
const api = new Api(session, { reached: (yes) => shell.reached(yes), unauthorised: keyLapsed });
const router = new Router({ api, session, shell, refreshAccount }, (view, place) => shell.show(view, place));

route("/submit", submitView);
route("/jobs", jobsView);
route("/jobs/:id", jobView);
route("/queue", queueView);
route("/regions", regionsView);
route("/admin", adminView);
route("/admin/:part", adminView);
route("/missing", missingView);

function signOut() {
  router.close();
  session.end();
  askForKey();
}

function keyLapsed() {
  if (!session.me) return;
  router.close();
  session.expire();
  askForKey("This key no longer works. Sign in again; what you were writing is kept.");
}

function askForKey(reason) {
  shell.frame();
  shell.show(signInView({ reason, signIn }), "/");
}

async function signIn(key, remember) {
  const me = await api.get("api/v1/me", { key });
  session.begin(key, remember, me);
  enter();
}

function enter() {
  shell.frame();
  router.open();
}

async function refreshAccount() {
  session.me = await api.get("api/v1/me");
  shell.frame();
  return session.me;
}

async function start() {
  if (!session.key) return askForKey();
  try {
    session.me = await api.get("api/v1/me");
    enter();
  } catch (error) {
    if (error.status !== 401) {
      shell.show(missingView({ problem: error, again: start }), "/");
    }
  }
  return undefined;
}

addEventListener("storage", () => {
  if (!session.key) keyLapsed(); // signed out in another tab
});

addEventListener("hashchange", () => {
  if (session.me) router.open();
});

start();
