// Files of the API: bytes as blobs for the page, signed addresses for players and downloads, uploads with progress.

import { ApiError, NetworkError, path } from "../api.js";

const SAME_ORIGIN = "?redirect=false"; // a file store may be at another origin
const BASE = new URL(".", document.baseURI);

/** The id of a reference `{file: "file_…"}`, as outputs and inputs have it; null for anything else. */
export function fileId(value) {
  const id = value?.file;
  return typeof id === "string" && /^file_\w+$/.test(id) ? id : null;
}

/** Every file that an output is or contains, in its order. */
export function filesIn(value) {
  if (value === null || typeof value !== "object") return [];
  return fileId(value) ? [value] : Object.values(value).flatMap(filesIn);
}

export class Files {
  #api;
  #session;

  constructor(api, session) {
    this.#api = api;
    this.#session = session;
  }

  /** Name, type and size. */
  get(id, signal) {
    return this.#api.get(path`api/v1/files/${id}`, { signal });
  }

  async blob(id, signal) {
    const response = await this.#api.open(path`api/v1/files/${id}/content` + SAME_ORIGIN, { signal, cache: "default" });
    return response.blob();
  }

  /** The address of a player's source, from this origin as the content security policy requires. */
  async sourceUrl(id, signal) {
    return (await this.signedUrl(id, signal)) + SAME_ORIGIN.replace("?", "&");
  }

  /** An address that works without the key for a few minutes. */
  signedUrl(id, signal) {
    return this.#signed(path`api/v1/files/${id}/url`, signal);
  }

  /** Save a file; the browser shows the transfer. */
  async download(id) {
    saveAs(await this.signedUrl(id), "");
  }

  /** Save all outputs of a job as one ZIP file; the browser streams it to the disk. */
  async downloadAll(job) {
    saveAs(await this.#signed(path`api/v1/jobs/${job}/files.zip/url`), "");
  }

  delete(id) {
    return this.#api.delete(path`api/v1/files/${id}`);
  }

  /** Upload a local file. `progress(share)` is called with 0 to 1; only XMLHttpRequest reports it. */
  upload(file, progress, signal) {
    return new Promise((resolve, reject) => {
      const request = new XMLHttpRequest();
      request.open("POST", new URL("api/v1/files", BASE));
      request.setRequestHeader("Authorization", `Bearer ${this.#session.key}`);
      request.setRequestHeader("Content-Type", "application/octet-stream");
      request.setRequestHeader("X-File-Name", encodeURIComponent(file.name));
      request.responseType = "json";
      request.upload.addEventListener("progress", ({ loaded, total }) => progress(total ? loaded / total : 0));
      request.addEventListener("error", () => reject(new NetworkError(null)));
      request.addEventListener("abort", () => reject(new DOMException("aborted", "AbortError")));
      request.addEventListener("load", () => {
        if (request.status === 201) resolve(request.response);
        else reject(new ApiError(request.status, request.response ?? {}, undefined));
      });
      signal?.addEventListener("abort", () => request.abort());
      request.send(file);
    });
  }

  async #signed(address, signal) {
    const { url } = await this.#api.post(address, undefined, { signal });
    return new URL(url.replace(/^\//, ""), BASE).href;
  }
}

function saveAs(address, name) {
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
}

export function saveBlob(blob, name) {
  const address = URL.createObjectURL(blob);
  saveAs(address, name);
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}
