// Submitting a job. What is half written survives a reload and a restart of the server.

import { loadCatalogue } from "../catalogue.js";
import { el, field, write } from "../dom.js";
import { notice, pageHead } from "../parts.js";
import { go } from "../router.js";
import { generationForm } from "../submit/generation.js";
import { matrixForm } from "../submit/matrix.js";
import { outlook } from "../submit/outlook.js";
import { pipelineForm } from "../submit/pipeline.js";

const KINDS = {
  matrix: ["Matrix", matrixForm],
  pipeline: ["Pipeline", pipelineForm],
  generation: ["Generation", generationForm],
};
const DRAFT = "submit";

export function submitView(context) {
  const { api, signal } = context;
  const said = notice();
  const node = el("div", {}, pageHead("Submit a job"), said.node);
  loadCatalogue(api, signal)
    .then((catalogue) => node.append(submitForm(context, catalogue, said)))
    .catch((error) => said.fail(error));
  return { title: "Submit", node };
}

function submitForm(context, catalogue, said) {
  const { api, session, shell, signal } = context;
  const draft = session.draft(DRAFT);
  const place = el("div");
  const name = el("input", { maxlength: 200, value: draft.name ?? "" });
  const preview = el("pre");
  const forecast = outlook(context);
  const send = el("button", { class: "primary" }, "Submit");
  let kind = KINDS[draft.kind] ? draft.kind : "matrix";
  let form;

  const body = () => ({ kind, ...(name.value.trim() && { name: name.value.trim() }), ...form.body() });

  function changed() {
    draft[kind] = form.draft();
    // The same form sent twice is the same job; a changed one is another.
    session.keepDraft(DRAFT, Object.assign(draft, { kind, name: name.value, token: null }));
    show();
  }

  function show() {
    forecast.update(form.size(), form.models());
    write(preview, JSON.stringify(body(), null, 2));
  }

  function open(next) {
    kind = next;
    form = KINDS[kind][1](catalogue, draft[kind] ?? {}, () => changed());
    place.replaceChildren(form.node);
    show();
  }

  async function submit(event) {
    event.preventDefault();
    said.say("");
    if (complainAll(form, form.problems(), said)) return;
    send.disabled = true;
    draft.token ??= randomToken();
    session.keepDraft(DRAFT, draft);
    try {
      const accepted = await api.post("api/v1/jobs", body(), { headers: { "Idempotency-Key": draft.token }, signal });
      session.dropDraft(DRAFT);
      shell.announce("Job submitted");
      go(`/jobs/${accepted.job_id}`);
    } catch (error) {
      if (!complainAll(form, error.errors ?? [], said)) said.fail(error);
      forecast.refresh();
    } finally {
      send.disabled = false;
    }
  }

  const choose = ({ target }) => { open(target.value); changed(); };
  const kinds = el("fieldset", { class: "segments" }, el("legend", { class: "unseen" }, "Kind of job"),
    Object.entries(KINDS).map(([value, [label]]) => el("label", {},
      el("input", { type: "radio", name: "kind", value, checked: value === kind, onchange: choose }), label)));
  const naming = field("Name", name, { hint: "Optional; helps you find it again." });
  const main = el("div", { class: "panel stack" }, kinds, naming, place);
  const aside = el("aside", { class: "panel stack", "aria-label": "Before you submit" },
    forecast.node, el("div", { class: "actions" }, send), el("details", {}, el("summary", {}, "The request"), preview));
  open(kind);
  const node = el("form", { class: "columns", novalidate: true, onsubmit: submit }, main, aside);
  main.addEventListener("input", () => changed());
  return node;
}

/** Puts each problem under its control and the rest into the notice; whether there were any. */
function complainAll(form, problems, said) {
  const rest = [];
  let first = null;
  for (const { field: name, message } of problems) {
    const place = form.place(name);
    place?.complain(message);
    first ??= place;
    if (!place) rest.push(name ? `${name}: ${message}` : message);
  }
  if (rest.length) said.say(rest.join(" · "), "bad");
  first?.focus();
  return problems.length > 0;
}

function randomToken() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
