// Submitting a job. Drafts survive a reload and a restart of the server.

import { loadCatalogue } from "../catalogue.js";
import { el, field, setText } from "../dom.js";
import { createNotice, pageHeader } from "../components.js";
import { go } from "../router.js";
import { generationForm } from "../submit/generation.js";
import { matrixForm } from "../submit/matrix.js";
import { jobOptions } from "../submit/options.js";
import { submitEstimate } from "../submit/estimate.js";
import { pipelineForm } from "../submit/pipeline.js";

const KINDS = {
  matrix: ["Matrix", matrixForm],
  pipeline: ["Pipeline", pipelineForm],
  generation: ["Generation", generationForm],
};
const DRAFT = "submit";

export function submitView(context) {
  const { api, signal } = context;
  const notice = createNotice();
  const node = el("div", {}, pageHeader("Submit a job"), notice.node);
  loadCatalogue(api, signal)
    .then((catalogue) => node.append(submitForm(context, catalogue, notice)))
    .catch((error) => notice.showError(error));
  return { title: "Submit", node };
}

function submitForm(context, catalogue, notice) {
  const { api, files, session, shell, signal } = context;
  const draft = session.draft(DRAFT);
  const formSlot = el("div");
  const name = el("input", { maxlength: 200, value: draft.name ?? "" });
  const options = jobOptions(draft.options ?? {});
  const preview = el("pre");
  const estimate = submitEstimate(context);
  const send = el("button", { class: "primary" }, "Submit");
  let kind = KINDS[draft.kind] ? draft.kind : "matrix";
  let form;

  const body = () => ({ kind, ...(name.value.trim() && { name: name.value.trim() }), ...form.body(), ...options.body() });

  function changed() {
    draft[kind] = form.draft();
    // The same form sent twice is the same job; a change makes it another job.
    session.keepDraft(DRAFT, Object.assign(draft, { kind, name: name.value, options: options.draft(), token: null }));
    show();
  }

  function show() {
    estimate.update(form.size(), form.models());
    setText(preview, JSON.stringify(body(), null, 2));
  }

  function open(next) {
    kind = next;
    form = KINDS[kind][1](catalogue, draft[kind] ?? {}, { files, signal, changed: () => changed() });
    formSlot.replaceChildren(form.node);
    show();
  }

  async function submit(event) {
    event.preventDefault();
    notice.show("");
    if (showProblems([form, options], [...form.problems(), ...options.problems()], notice)) return;
    send.disabled = true;
    draft.token ??= randomToken();
    session.keepDraft(DRAFT, draft);
    try {
      const accepted = await api.post("api/v1/jobs", body(), { headers: { "Idempotency-Key": draft.token }, signal });
      session.dropDraft(DRAFT);
      shell.announce("Job submitted");
      go(`/jobs/${accepted.job_id}`);
    } catch (error) {
      if (!showProblems([form, options], error.errors ?? [], notice)) notice.showError(error);
      estimate.refresh();
    } finally {
      send.disabled = false;
    }
  }

  const choose = ({ target }) => { open(target.value); changed(); };
  const kinds = el("fieldset", { class: "segments" }, el("legend", { class: "visually-hidden" }, "Kind of job"),
    Object.entries(KINDS).map(([value, [label]]) => el("label", {},
      el("input", { type: "radio", name: "kind", value, checked: value === kind, onchange: choose }), label)));
  const naming = field("Name", name, { hint: "Optional; shown in the list of jobs." });
  const main = el("div", { class: "panel stack" }, kinds, naming, formSlot, options.node);
  const aside = el("aside", { class: "panel stack", "aria-label": "Estimate" },
    estimate.node, el("div", { class: "actions" }, send), el("details", {}, el("summary", {}, "Request body"), preview));
  open(kind);
  const node = el("form", { class: "columns", novalidate: true, onsubmit: submit }, main, aside);
  main.addEventListener("input", () => changed());
  return node;
}

/** Show each problem under its control and the rest in the notice. Returns whether there were any. */
function showProblems(forms, problems, notice) {
  const rest = [];
  let first;
  for (const { field: name, message } of problems) {
    const target = forms.map((form) => form.fieldOf(name)).find(Boolean);
    target?.setError(message);
    first ??= target;
    if (!target) rest.push(name ? `${name}: ${message}` : message);
  }
  if (rest.length) notice.show(rest.join(" · "), "bad");
  first?.focus();
  return problems.length > 0;
}

function randomToken() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
