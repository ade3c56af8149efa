// A file in the page: image with zoom, sound, video, 3D model, or a card with its type and size.

import { el, setAttr, setText } from "../dom.js";
import { actionButton } from "../components.js";
import { formatBytes, problemText } from "../labels.js";
import { LazyLoader } from "./lazy.js";
import { openZoom } from "./zoom.js";

const GLB = "model/gltf-binary";
const IMAGES = /^image\/(png|jpeg|webp|gif|avif|bmp)$/;
const MAX_SHOWN_BYTES = 64 * 1024 * 1024;
const MAX_ADDRESSES = 40;
const THUMBNAIL_PX = 128;

/** Shows files of one page; `gallery()` returns all images of the page, for zoom. */
export class MediaViewer {
  #files;
  #lazy;
  #addresses = new Map();
  /** @type {() => {reference: any, label: string}[]} */
  gallery = () => [];

  constructor(files, signal) {
    this.#files = files;
    this.#lazy = new LazyLoader(signal);
    signal.addEventListener("abort", () => this.#release(0));
  }

  /** The element for a reference; its content loads when it comes into view. */
  node(reference, label) {
    const body = el("div", { class: "media-body" });
    const note = el("small", { class: "muted" }, describe(reference));
    const save = actionButton("Download", () => this.#reportTo(note, () => this.#files.download(reference.file)), {
      class: "small quiet", "aria-label": `Download ${label}`,
    });
    const node = el("figure", { class: "media" }, body, el("figcaption", {}, note, save));
    const load = async () => {
      const known = reference.content_type ? reference : { ...await this.#files.get(reference.file, this.#lazy.signal), file: reference.file };
      setText(note, describe(known));
      await this.#fill(body, known, label);
    };
    this.#lazy.whenVisible(node, () => this.#reportTo(note, load));
    return node;
  }

  /** A small image for a cell of the matrix. Only the small one stays in memory. */
  thumbnail(reference) {
    const canvas = el("canvas", { class: "thumbnail", width: THUMBNAIL_PX, height: THUMBNAIL_PX, "aria-hidden": "true" });
    this.#lazy.whenVisible(canvas, async () => {
      try {
        const bitmap = await createImageBitmap(await this.#files.blob(reference.file, this.#lazy.signal), { resizeWidth: THUMBNAIL_PX });
        canvas.height = bitmap.height;
        canvas.getContext("2d").drawImage(bitmap, 0, 0);
        bitmap.close();
      } catch {
        setAttr(canvas, "hidden", true); // the cell itself shows the state; the answer shows the reason
      }
    });
    return canvas;
  }

  /** Run `work` when the element comes into view. */
  whenVisible(node, work) {
    this.#lazy.whenVisible(node, work);
  }

  /** The address of an image's blob. The oldest are released: an image that is shown already stays. */
  async imageAddress({ file }) {
    const known = this.#addresses.get(file);
    if (known) return known;
    const address = URL.createObjectURL(await this.#files.blob(file, this.#lazy.signal));
    this.#release(MAX_ADDRESSES - 1);
    this.#addresses.set(file, address);
    return address;
  }

  #release(left) {
    for (const [file, address] of this.#addresses) {
      if (this.#addresses.size <= left) break;
      this.#addresses.delete(file);
      URL.revokeObjectURL(address);
    }
  }

  async #fill(body, reference, label) {
    const { content_type: type, bytes = 0 } = reference;
    const fits = bytes <= MAX_SHOWN_BYTES; // a player loads only the ranges that it plays
    if (/^(audio|video)\//.test(type)) body.replaceChildren(await this.#player(reference, label));
    else if (fits && IMAGES.test(type)) body.replaceChildren(this.#zoomButton(reference, await this.imageAddress(reference), label));
    else if (fits && type === GLB) await this.#model(body, reference, label);
  }

  #zoomButton(reference, address, label) {
    const open = () => openZoom({ viewer: this, reference, label, download: (id) => this.#files.download(id) });
    return el("button", { type: "button", class: "zoom", onclick: open, "aria-label": `Enlarge ${label}` },
      el("img", { src: address, alt: "" }));
  }

  /** By a signed address: the browser requests the ranges that it plays. */
  async #player(reference, label) {
    const player = el(reference.content_type.startsWith("video/") ? "video" : "audio", { controls: true, preload: "metadata", "aria-label": label });
    player.src = await this.#files.sourceUrl(reference.file, this.#lazy.signal);
    let renewed = 0;
    player.addEventListener("error", async () => { // the address has expired
      if (Date.now() - renewed < 10_000) return;
      renewed = Date.now();
      player.src = await this.#files.sourceUrl(reference.file, this.#lazy.signal);
    });
    return player;
  }

  async #model(body, reference, label) {
    const [{ showModel }, blob] = await Promise.all([
      import("../viewer/glb.js"), this.#files.blob(reference.file, this.#lazy.signal),
    ]);
    const canvas = el("canvas", { class: "model", role: "img", "aria-label": `3D model: ${label}`, width: 480, height: 320 });
    const content = await blob.arrayBuffer();
    body.replaceChildren(canvas);
    if (!showModel(canvas, content)) canvas.remove();
  }

  async #reportTo(node, work) {
    try {
      await work();
    } catch (error) {
      if (error.name !== "AbortError") setText(node, problemText(error));
    }
  }
}

export function isImage(reference) {
  return IMAGES.test(reference.content_type ?? "");
}

function describe({ content_type: type, bytes }) {
  return [type, Number.isFinite(bytes) && formatBytes(bytes)].filter(Boolean).join(" · ");
}
