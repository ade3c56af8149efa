// The user's files: uploads and outputs of jobs, with the storage that they use.

import { fetchPages, path } from "../api.js";
import { formatAge, formatDateTime } from "../clock.js";
import { KeyedRows, button, el, setAttr, setText, table } from "../dom.js";
import { actionButton, confirmAction, createNotice, emptyNote, pageHeader, panel, reportErrors } from "../components.js";
import { poll } from "../follow.js";
import { formatBytes } from "../labels.js";
import { uploadZone } from "../media/upload-field.js";

const POLL_INTERVAL_S = 10;
const PAGE_SIZE = 100;

export function filesView({ api, files, refreshAccount, session, shell, signal }) {
  const notice = createNotice();
  const use = el("p", { class: "muted" });
  const meter = el("progress", { max: 1, "aria-label": "Storage used" });
  const list = table("Files", ["File", ["Type", "wide-only"], ["Size", "number"], ["Created", "number wide-only"], ["Actions", "header-hidden"]]);
  const rows = new KeyedRows(list.body, (file) => fileRow(file, { save, remove }));
  const nothing = emptyNote("No files yet. Outputs of jobs and your uploads are listed here.");
  const more = button("Show more", () => { pages += 1; refreshNow(); }, { class: "small", hidden: true });
  let pages = 1;
  nothing.hidden = true;

  const save = (file) => files.download(file.id).catch((error) => notice.showError(error));

  async function remove(file) {
    const sure = await confirmAction({
      title: "Delete this file?", text: `${file.name || file.id} is deleted. Jobs that refer to it keep the reference only.`, action: "Delete the file",
    });
    if (!sure) return;
    try {
      await files.delete(file.id);
      shell.announce("File deleted");
    } catch (error) {
      notice.showError(error);
    }
    refreshNow();
  }

  async function refresh() {
    const load = () => fetchPages(api, "api/v1/files", "files", { limit: PAGE_SIZE, pages, signal });
    const { found, cursor } = await reportErrors(notice, load, "The list of files");
    rows.show(found, ({ id }) => id);
    setAttr(more, "hidden", !cursor);
    setAttr(nothing, "hidden", found.length > 0);
    setAttr(list.node, "hidden", found.length === 0);
    await refreshAccount();
    showUse(session.me?.limits?.storage_bytes);
  }

  function showUse(storage) {
    const limited = Number.isFinite(storage?.limit);
    setText(use, storage ? `${formatBytes(storage.used)} used${limited ? ` of ${formatBytes(storage.limit)}` : ""}` : "");
    setAttr(meter, "hidden", !limited);
    if (limited) meter.value = Math.min(1, storage.used / storage.limit);
  }

  const refreshNow = poll(POLL_INTERVAL_S, signal, refresh);
  const uploading = createNotice();
  const zone = uploadZone({ files, signal, notice: uploading, done: () => refreshNow() });
  const node = el("div", {}, pageHeader("Files"), notice.node,
    el("div", { class: "panels" }, panel("Upload", zone.node, uploading.node), panel("Storage", use, meter)),
    el("div", { class: "gap" }), nothing, list.node, el("div", { class: "actions pager" }, more));
  return { title: "Files", node };
}

function fileRow(file, { save, remove }) {
  const name = file.name || file.id;
  const source = file.job_id && el("a", { href: `#/${path`jobs/${file.job_id}`}` }, "Output of a job");
  const expiry = file.expires_at && `Deleted ${formatDateTime(file.expires_at)} unless a job uses it`;
  const created = el("td", { class: "number wide-only", title: formatDateTime(file.created_at) });
  const node = el("tr", {},
    el("th", { scope: "row" }, el("span", { class: "file-name" }, name), el("small", { class: "muted" }, source || expiry || "")),
    el("td", { class: "wide-only" }, file.content_type),
    el("td", { class: "number" }, formatBytes(file.bytes)),
    created,
    el("td", {}, el("div", { class: "actions end-inline file-actions" },
      actionButton("Download", () => save(file), { class: "small", "aria-label": `Download ${name}` }),
      actionButton("Delete", () => remove(file), { class: "small danger", "aria-label": `Delete ${name}` }))));
  return { node, update: (next) => setText(created, formatAge(next.created_at)) };
}
