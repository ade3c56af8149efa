// An image over the whole page. Arrow keys move through the images of the page, Escape closes it.

import { button, el, setAttr, setText } from "../dom.js";

/** `viewer` loads images and knows all of the page; `download(id)` saves one. */
export function openZoom({ viewer, reference, label, download }) {
  const all = viewer.gallery();
  let at = Math.max(0, all.findIndex((one) => one.reference.file === reference.file));
  const images = all.length ? all : [{ reference, label }];
  const image = el("img", { class: "zoomed" });
  const title = el("h2", { id: "zoom-title" });
  const back = button("Previous image", () => move(-1), { class: "small" });
  const next = button("Next image", () => move(1), { class: "small" });
  const save = button("Download", () => download(images[at].reference.file), { class: "small" });
  const close = button("Close", () => dialog.close(), { class: "small primary", autofocus: true });
  const dialog = el("dialog", { class: "zoom-dialog", "aria-labelledby": "zoom-title" },
    el("div", { class: "head-row" }, title, el("div", { class: "actions" }, back, next, save, close)), image);

  async function show() {
    const shown = images[at];
    setText(title, shown.label);
    setAttr(image, "alt", shown.label);
    for (const [control, last] of [[back, 0], [next, images.length - 1]]) {
      setAttr(control, "hidden", images.length < 2);
      setAttr(control, "aria-disabled", at === last ? "true" : null);
    }
    const address = await viewer.imageAddress(shown.reference);
    if (images[at] === shown) image.src = address;
  }

  function move(by) {
    at = Math.min(images.length - 1, Math.max(0, at + by));
    show();
  }

  dialog.addEventListener("keydown", ({ key }) => {
    if (key === "ArrowLeft") move(-1);
    if (key === "ArrowRight") move(1);
  });
  dialog.addEventListener("click", ({ target }) => { if (target === dialog) dialog.close(); });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  show();
}
