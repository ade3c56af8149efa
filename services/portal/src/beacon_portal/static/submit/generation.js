// A single generation: one model and its input. The form follows the model's schema; without one it is a prompt,
// a duration for audio models, and a file.

import { el, field, select, setAttr } from "../dom.js";
import { uploadField } from "../media/upload-field.js";
import { errorTarget, numbers } from "./fields.js";
import { schemaForm } from "./schema-form.js";

const DEFAULT_FILE_FIELD = "image";

export function generationForm(catalogue, draft, context) {
  const { changed } = context;
  const model = select(catalogue.models.map(({ id }) => [id]), { value: draft.model });
  const region = select([["", "Any"]], {});
  const slot = el("div");
  const inputs = new Map(Object.entries(draft.inputs ?? {}));
  const chosen = () => catalogue.models.find(({ id }) => id === model.value);
  let form;
  let shownFor = "";

  function show(wanted) {
    const { regions = [], inputSchema, maxDurationS } = chosen() ?? {};
    region.replaceChildren(...["", ...regions].map((id) => new Option(id || "Any", id)));
    region.value = regions.includes(wanted) ? wanted : "";
    shownFor = inputSchema ? model.value : "";
    const kept = inputs.get(shownFor) ?? {};
    form = inputSchema ? schemaForm(inputSchema, kept, context) : promptForm(kept, maxDurationS, context);
    slot.replaceChildren(form.node);
  }

  const keep = () => inputs.set(shownFor, form.draft());
  model.addEventListener("change", () => {
    keep();
    show(region.value);
    changed();
  });
  show(draft.region);
  return {
    node: el("div", { class: "stack" }, el("div", { class: "fields" }, field("Model", model), field("Region", region)), slot),
    draft() {
      keep();
      return { model: model.value, region: region.value, inputs: Object.fromEntries(inputs) };
    },
    body: () => ({ model: model.value, ...(region.value && { region: region.value }), ...form.body() }),
    models: () => [model.value],
    size: () => ({ runs: 1, breakdown: "one run", seconds: form.seconds?.() || (chosen()?.expectedRunS ?? 0) }),
    problems: () => form.problems(),
    fieldOf: (name) => form.fieldOf(name) ?? errorTarget({ model, region }[name]),
  };
}

function promptForm(draft, maxDurationS, context) {
  const prompt = el("textarea", { rows: 3, value: draft.prompt ?? "" });
  const duration = el("input", { type: "number", min: 1, max: maxDurationS, step: "any", value: draft.duration ?? "" });
  const loop = el("input", { type: "checkbox", checked: draft.loop ?? false });
  const name = el("input", { value: draft.fileField ?? DEFAULT_FILE_FIELD, maxlength: 100, class: "mono" });
  const upload = uploadField("File (optional)", { ...context, value: draft.file, changed: () => { show(); context.changed(); } });
  const nameField = field("Name of the file in the input", name);
  const timed = Boolean(maxDurationS);
  const durationField = field("Duration (s)", duration);
  const loopField = el("label", { class: "check" }, loop, "Loop");
  setAttr(durationField, "hidden", !timed);
  setAttr(loopField, "hidden", !timed);
  const show = () => setAttr(nameField, "hidden", !upload.reference());
  const fileField = () => name.value.trim() || DEFAULT_FILE_FIELD;
  show();
  return {
    node: el("div", { class: "stack" }, field("Prompt", prompt), durationField, loopField, upload.node, nameField),
    draft: () => ({ prompt: prompt.value, duration: duration.value, loop: loop.checked, file: upload.draft(), fileField: name.value }),
    body: () => ({
      ...(prompt.value.trim() && { prompt: prompt.value.trim() }),
      ...(timed && { ...numbers({ duration: duration.value }), loop: loop.checked }),
      ...(upload.reference() && { input: { [fileField()]: upload.reference() } }),
    }),
    seconds: () => timed && Number(duration.value),
    problems() {
      const waiting = upload.problem(false);
      if (waiting) return [{ field: "input.file", message: waiting }];
      return prompt.value.trim() || upload.reference() ? [] : [{ field: "prompt", message: "Enter a prompt." }];
    },
    fieldOf: (field_) => (field_.startsWith("input.") ? upload : errorTarget({ prompt, duration }[field_])),
  };
}
