// A file chosen, dropped or pasted into a form: uploaded at once, so that the job only refers to it.

import { button, el, field, setAttr, setError, setText } from "../dom.js";
import { count, formatBytes, problemText } from "../labels.js";

/**
 * `value` is `{file, name}` of an earlier upload; `changed()` is called after each change.
 *
 * @param {string} label
 * @param {{files: any, signal: AbortSignal, changed: () => void, value?: any, accept?: string, hint?: string}} options
 */
export function uploadField(label, { files, signal, changed, value, accept, hint }) {
  let chosen = value?.file ? value : null;
  let uploading = 0;
  const input = el("input", { type: "file", accept });
  const bar = el("progress", { max: 1, hidden: true, "aria-label": `Upload of ${label}` });
  const text = el("span", {});
  const clear = button("Remove", () => { set(null); input.focus(); }, { class: "small quiet", "aria-label": `Remove ${label}` });
  const drop = el("div", { class: "drop" }, text, bar, clear);
  const node = field(label, input, { hint });
  node.insertBefore(drop, node.querySelector(".field-error"));

  function set(next) {
    chosen = next;
    input.value = "";
    setError(input);
    show();
    changed();
  }

  function show() {
    setText(text, chosen ? `${chosen.name}${chosen.bytes ? ` · ${formatBytes(chosen.bytes)}` : ""}` : "or drop it here");
    setAttr(clear, "hidden", !chosen);
    setAttr(bar, "hidden", uploading === 0);
  }

  async function upload(file) {
    uploading += 1;
    bar.value = 0;
    setError(input);
    show();
    try {
      const stored = await files.upload(file, (share) => { bar.value = share; }, signal);
      set({ file: stored.id, name: stored.name || file.name, bytes: stored.bytes });
    } catch (error) {
      if (error.name !== "AbortError") setError(input, problemText(error));
    } finally {
      uploading -= 1;
      show();
    }
  }

  input.addEventListener("change", () => { if (input.files?.[0]) upload(input.files[0]); });
  acceptDrops(node, ([file]) => upload(file));
  show();
  return {
    node,
    draft: () => chosen,
    reference: () => (chosen ? { file: chosen.file } : null),
    problem: (required) => (uploading ? "Wait until the upload has finished." : required && !chosen ? "Choose a file." : null),
    setError: (message) => setError(input, message),
    focus: () => input.focus(),
  };
}

/** Call `take(files)` for files that are dropped on the node. */
export function acceptDrops(node, take) {
  const mark = (over) => setAttr(node, "data-drop", over);
  node.addEventListener("dragover", (event) => { event.preventDefault(); mark(true); });
  node.addEventListener("dragleave", () => mark(false));
  node.addEventListener("drop", (event) => {
    event.preventDefault();
    mark(false);
    if (event.dataTransfer.files.length) take([...event.dataTransfer.files]);
  });
}

/** Several files at once: uploads them one after another and reports each result. */
export function uploadZone({ files, signal, done, notice }) {
  const input = el("input", { type: "file", multiple: true });
  const bar = el("progress", { max: 1, value: 0, hidden: true, "aria-label": "Upload" });
  const node = field("Upload files", input, { hint: "Or drop them here. A file that no job uses is deleted after a day." });
  node.classList.add("drop-zone");
  node.append(bar);

  async function upload(all) {
    setAttr(bar, "hidden", false);
    notice.show("");
    let stored = 0;
    try {
      for (const file of all) {
        await files.upload(file, (share) => { bar.value = (stored + share) / all.length; }, signal);
        stored += 1;
        done();
      }
      notice.show(`${count(stored, "file")} uploaded`, "ok");
    } catch (error) {
      notice.showError(error);
    } finally {
      setAttr(bar, "hidden", true);
      input.value = "";
    }
  }

  input.addEventListener("change", () => upload([...(input.files ?? [])]));
  acceptDrops(node, upload);
  return { node };
}
