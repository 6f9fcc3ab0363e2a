// The page that sizes a job: moves the texts of its form to the library and the library's HTML back. It computes nothing.
const root = document.getElementById("size-it");
const form = root.querySelector("form");
const said = root.querySelector("#size-said");
const shown = root.querySelector(".size-answer");
const more = root.querySelector(".size-more");
const fields = [...form.querySelectorAll("[name]")];
const places = fetch(new URL(document.querySelector("script[data-live]").dataset.live, document.baseURI)).then((r) => r.json()).then((known) => known.places ?? {}, () => ({}));
const MOST_ADDRESS = 16000, MOST_FILE = 1000000;
const ask = (...what) => window.mlsysimLive.ask(...what);
let asked, last, linked; // linked: the link that this job came by

const counts = (field) => field.dataset.tasks.split(" ").includes(form.elements.task.value);
const texts = () => Object.fromEntries(fields.filter((f) => counts(f) && f.value.trim()).map((f) => [f.name, f.value.trim()]));

function tell(text, wrong = false) {
  said.textContent = text;
  said.classList.toggle("live-wrong", wrong);
}

function relevant() { // only what the task asks for
  for (const field of fields) (field.closest(".size-control") ?? field).hidden = !counts(field);
}

function fill(values) {
  for (const field of fields) field.value = values[field.name] ?? (field.name === "task" ? "serve" : "");
  relevant();
}

function complain(name, text) {
  tell(text, true);
  const field = fields.find((f) => f.name === name);
  if (!field) return;
  field.setAttribute("aria-invalid", "true");
  field.setAttribute("aria-describedby", "size-said");
  for (let fold = field.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
  field.focus();
}

async function link(where) { // equations by their places in the book
  const known = await places;
  for (const code of where.querySelectorAll("code")) {
    const label = code.textContent, href = known[label];
    if (href && !code.closest("a, summary")) {
      const a = Object.assign(document.createElement("a"), { href });
      code.replaceWith(a);
      a.append(code);
    }
  }
  for (const cell of where.querySelectorAll("td")) if (known[cell.textContent]) cell.replaceChildren(Object.assign(document.createElement("a"), { href: known[cell.textContent], textContent: cell.textContent }));
}

function address({ measured, ...values }) { // a file of the reader's own stays here
  const hash = `#size?${new URLSearchParams(values)}`;
  if (hash.length > MOST_ADDRESS) return false;
  history.replaceState(null, "", hash);
  return true;
}

// What takes seconds plays in a worker of its own, which ends with the next question, so that nobody waits for it.
let playing;
async function confirm(values, mine) {
  const line = root.querySelector(".size-confirmed");
  line.textContent = "";
  if (values.task !== "serve" || !["ttft", "itl", "e2e"].some((name) => values[name])) return;
  line.textContent = "The simulator plays this answer, request by request …";
  const tag = document.querySelector("script[data-live]");
  const own = (playing = new Worker(new URL(`live-worker.js?${tag.dataset.engine}`, import.meta.url), { type: "module" }));
  const end = (text) => { own.terminate(); if (mine === asked) line.textContent = text; };
  own.onerror = () => end("");
  own.onmessage = ({ data }) => {
    if (data.ready) own.postMessage({ id: 1, do: "confirm", with: [values] });
    else if (data.failed) end("");
    else if (data.made) { const { text } = JSON.parse(data.made); end(text ? `${text[0].toUpperCase()}${text.slice(1)}.` : ""); }
  };
}

function put(place, html) { // folds stay as the reader left them
  const was = new Map([...place.querySelectorAll("details")].map((d) => [d.firstChild.textContent, d.open]));
  place.innerHTML = html;
  for (const fold of place.querySelectorAll("details")) fold.open = was.get(fold.firstChild.textContent) ?? fold.open;
  link(place);
}

async function size(more_ = {}) {
  const mine = (asked = {}), values = { ...texts(), ...more_ };
  root.dataset.state = "loading";
  tell("");
  playing?.terminate();
  window.mlsysimLive.starting(root, "Sizing …");
  for (const field of fields) { field.removeAttribute("aria-invalid"); field.removeAttribute("aria-describedby"); }
  try {
    const found = await ask("size", values);
    if (mine !== asked) return;
    if (found.error) {
      root.dataset.state = "error";
      root.classList.add("size-refused"); // what stands there answers another job
      complain(found.field, found.error);
      return;
    }
    root.querySelector(".size-now").innerHTML = found.html;
    root.querySelector(".live-heard").textContent = found.heard;
    root.querySelector(".size-confirmed").textContent = "";
    root.classList.remove("size-stale", "size-refused");
    last = values;
    more.hidden = values.task === "fits";
    more.open = false;
    tell(address(values) ? window.mlsysimLive.claimed(linked, found.heard) : "This config is too long for an address: send the file along.");
    linked = undefined;
    root.dataset.state = "first"; // the numbers; pictures and reasons come behind them
    for (const part of ["beside", "behind"]) {
      const place = root.querySelector(`.size-${part}`), made = await ask(part, values);
      if (mine !== asked) return;
      put(place, made.html ?? "");
      if (made.error) tell(made.error, true);
    }
    root.dataset.state = "ready";
    confirm(values, mine);
  } catch (error) {
    if (mine !== asked) return;
    root.dataset.state = "error";
    tell(error.message, true);
  }
}

async function take(kind) {
  try {
    const found = await ask("export", last ?? texts(), kind);
    if (found.error) throw new Error(found.error);
    const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(new Blob([found.text], { type: found.type })), download: found.name });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    tell(`${found.name} is made.`);
  } catch (error) { tell(error.message, true); }
}

async function readCommand() {
  const told = root.querySelector(".size-told");
  told.textContent = "Reading …";
  try {
    const found = await ask("command", root.querySelector("#size-command").value);
    if (found.error) { told.textContent = found.error; return; }
    fill({ model: form.elements.model.value, device: form.elements.device.value, config: found.fields.model ? "" : form.elements.config.value, ...found.fields });
    const line = (text) => Object.assign(document.createElement("p"), { textContent: text });
    told.replaceChildren(line(`Read: ${found.read.join("; ") || "nothing"}.`), ...(found.unread.length ? [line(`Not read, so the answer does not know of: ${found.unread.join(", ")}.`)] : []));
    await size();
  } catch (error) { told.textContent = error.message; }
}

async function takeFile(file, name) {
  if (!file) return;
  const text = file.size > MOST_FILE ? "" : await file.text();
  name ??= text.includes('"model_type"') ? "config" : "measured"; // of one that was dropped
  if (!text) { complain(name, `${file.name} has ${file.size} bytes; a file has 1 to ${MOST_FILE} here`); return; }
  form.elements[name].value = text;
  form.elements[name].closest("details").open = true;
  size();
}

form.addEventListener("submit", (event) => { event.preventDefault(); size(); });
form.addEventListener("focusin", () => window.mlsysimLive.engine().catch(() => {}), { once: true }); // Python comes while somebody types
form.elements.task.addEventListener("change", relevant);
form.addEventListener("input", () => root.classList.toggle("size-stale", Boolean(last)));
root.querySelector(".size-read").addEventListener("click", readCommand);
root.querySelector("#size-file").addEventListener("change", (event) => takeFile(event.target.files[0], "config"));
root.querySelector("#size-run").addEventListener("change", (event) => takeFile(event.target.files[0], "measured"));
for (const kind of root.querySelectorAll("[data-export]")) kind.addEventListener("click", () => take(kind.dataset.export));
root.querySelector(".size-share").addEventListener("click", async () => {
  const values = texts(), known = !values.measured && JSON.stringify(values) === JSON.stringify(last);
  if (!address(values)) { tell("This config is too long for an address: send the file along.", true); return; }
  const link = known ? window.mlsysimLive.claim(location.hash.slice(1), root.querySelector(".live-heard").textContent) : location.href;
  try { await navigator.clipboard.writeText(link); tell(`The address of this job is copied${known ? ", with its answer and the version that gives it" : ""}.`); } catch { tell(`The address of this job: ${link}`); }
});
more.addEventListener("toggle", async () => {
  if (!more.open) return;
  const place = more.querySelector(".live-html");
  place.textContent = "Asking again …";
  try { const found = await ask("more", last ?? texts()); if (found.error) throw new Error(found.error); place.innerHTML = found.html; } catch (error) { place.textContent = error.message; }
});
root.addEventListener("dragover", (event) => { event.preventDefault(); root.classList.add("size-dropping"); });
root.addEventListener("dragleave", () => root.classList.remove("size-dropping"));
root.addEventListener("drop", (event) => { event.preventDefault(); root.classList.remove("size-dropping"); takeFile(event.dataTransfer.files[0]); });

function follow() {
  const [name, query] = [location.hash.slice(1).split("?")[0], location.hash.split("?").slice(1).join("?")];
  if (name !== "size" || !query) return;
  linked = new URLSearchParams(query);
  const { said: _, version: __, ...given } = Object.fromEntries(linked); // written by anybody: the library refuses what is no field, or counts elsewhere
  fill(given);
  size(given);
}
relevant();
for (const part of [form, more, root.querySelector(".size-exports")]) part.hidden = false; // without this script they stay away
root.classList.add("size-awake");
addEventListener("hashchange", follow);
if (document.documentElement.classList.contains("live")) follow();
link(shown);
