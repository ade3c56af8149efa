// Entry point: builds the parts and starts.

import { Api } from "./api.js";
import { Files } from "./media/files.js";
import { Router, route } from "./router.js";
import { Session } from "./session.js";
import { Shell } from "./shell.js";
import { adminView } from "./views/admin.js";
import { filesView } from "./views/files.js";
import { jobView } from "./views/job.js";
import { jobsView } from "./views/jobs.js";
import { limitsView } from "./views/limits.js";
import { notFoundView } from "./views/not-found.js";
import { queueView } from "./views/queue.js";
import { regionsView } from "./views/regions.js";
import { signInView } from "./views/sign-in.js";
import { submitView } from "./views/submit.js";
import { webhookView } from "./views/webhook.js";
import { webhooksView } from "./views/webhooks.js";
import { usageView } from "./views/usage.js";

const session = new Session();
const shell = new Shell(session, signOut);
const api = new Api(session, { onReachable: (reachable) => shell.setReachable(reachable), onUnauthorised: onKeyRejected });
const router = new Router({ api, files: new Files(api, session), session, shell, refreshAccount }, {
  notFound: notFoundView,
  show: (view, path) => shell.show(view, path),
});

route("/submit", submitView);
route("/jobs", jobsView);
route("/jobs/:id", jobView);
route("/files", filesView);
route("/queue", queueView);
route("/regions", regionsView);
route("/limits", limitsView);
route("/webhooks", webhooksView);
route("/webhooks/:id", webhookView);
route("/usage", usageView);
route("/admin", adminView);
route("/admin/:part", adminView);

function signOut() {
  router.close();
  session.end();
  showSignIn();
}

function onKeyRejected() {
  if (!session.me) return;
  router.close();
  session.expire();
  showSignIn("This key no longer works. Sign in again; your drafts are kept.");
}

function showSignIn(reason) {
  shell.updateFrame();
  shell.show(signInView({ reason, signIn }), "/");
}

async function signIn(key, remember) {
  const me = await api.get("api/v1/me", { key });
  session.begin(key, remember, me);
  openPortal();
}

function openPortal() {
  shell.updateFrame();
  router.open();
}

async function refreshAccount() {
  session.me = await api.get("api/v1/me");
  shell.updateFrame();
  return session.me;
}

async function start() {
  if (!session.key) return showSignIn();
  try {
    session.me = await api.get("api/v1/me");
    openPortal();
  } catch (error) {
    if (error.status !== 401) {
      shell.show(notFoundView({ problem: error, retry: start }), "/");
    }
  }
  return undefined;
}

addEventListener("storage", () => {
  if (!session.key) onKeyRejected(); // signed out in another tab
});

addEventListener("hashchange", () => {
  if (session.me) router.open();
});

start();
