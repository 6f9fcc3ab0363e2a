// Live pages: sliders, listings, questions and numbers of a chapter. Nothing is computed here; the library answers from a
// worker that the first touch starts. Until then, and without JavaScript, the page shows what the build printed.
const tag = document.querySelector("script[data-live]");
const assets = new URL("./", import.meta.url);
const home = new URL(tag.dataset.live, document.baseURI); // this page's definitions
const engineMade = tag.dataset.engine !== "none"; // else the digest of all that the engine holds
const calm = matchMedia("(prefers-reduced-motion: reduce)");

// ---- the engine

let worker, readiness, waiting = new Map(), asked = 0, page;
const times = (window.mlsysimTimes = { touch: 0, ready: 0, moves: [] }); // for tests and the curious

const printed = "Until then the page shows what the build printed.";
async function read() {
  const got = await fetch(home).catch(() => {});
  if (!got?.ok) { page = undefined; throw new Error(`What this page computes did not arrive. Is there a connection? Try again. ${printed}`); }
  return got.json();
}
const definitions = () => (page ??= read());
const keeper = window.mlsysimKeeper; // a course system that holds this page, and keeps what a browser would (book/_live/scorm.js)
const weight = Number(tag.dataset.weight);
let come = 0;

// Says that Python starts, how much has to come for it, and how much has come; once it is there, what is being done instead.
function starting(root, meanwhile) {
  if (times.ready) { said(root, meanwhile); return; }
  said(root, `Starting Python: ${Math.round(weight / 1e6)} MB${keeper ? "" : ", once for the whole book"}. `);
  const bar = make("progress", { max: weight, value: come });
  bar.setAttribute("aria-label", "what has come of Python");
  root.querySelector(":scope > .live-said").append(bar);
}

function engine() {
  if (readiness) return readiness;
  if (!engineMade) return Promise.reject(new Error("this copy of the book was built without the engine (npm was missing): what stands here is what the build printed"));
  if (location.protocol === "file:") return Promise.reject(new Error("a page opened as a file runs no Python: use `make serve`, or the site on the web"));
  times.touch = performance.now();
  readiness = new Promise((resolve, reject) => {
    worker = new Worker(new URL(`live-worker.js?${tag.dataset.engine}`, assets), { type: "module" });
    const fail = (why) => reject(new Error(`Python did not start: ${why}. Is there a connection? Try again. ${printed}`));
    worker.onerror = (event) => fail(event.message || "its program did not arrive");
    worker.onmessage = ({ data }) => {
      if (data.ready) { times.ready = performance.now(); resolve(); }
      else if (data.failed) fail(data.failed);
      else if (data.come) { come = data.come; for (const bar of document.querySelectorAll(".live-said > progress")) bar.value = come; }
      else { waiting.get(data.id)?.resolve(JSON.parse(data.made)); waiting.delete(data.id); }
    };
  });
  readiness.catch(() => { worker?.terminate(); readiness = undefined; });
  return readiness;
}

async function ask(what, ...with_) {
  await engine();
  return new Promise((resolve, reject) => {
    waiting.set(++asked, { resolve, reject });
    worker.postMessage({ id: asked, do: what, with: with_ });
  });
}

function stopEngine() { // an endless loop has no ear: the worker ends, and a new one starts at the next touch
  worker?.terminate();
  readiness = undefined;
  for (const { reject } of waiting.values()) reject(new Error("stopped"));
  waiting.clear();
  for (const view of views.values()) view.opened = view.ready = view.warmed = undefined;
  for (const listing of listings) listing.ran = false;
}

const make = (name, properties = {}, ...children) => {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
};
const button = (text, act, properties = {}) => {
  const made = make("button", { type: "button", className: "live-button", textContent: text, ...properties });
  made.addEventListener("click", act);
  return made;
};
const state = (root, name) => { root.dataset.state = name; root.toggleAttribute("aria-busy", name === "loading"); };
const stored = (name, value) => {
  if (keeper) return keeper(name, value) ?? null;
  try {
    if (value === undefined) return JSON.parse(localStorage.getItem(`mlsysim.${name}`) ?? "null");
    localStorage.setItem(`mlsysim.${name}`, JSON.stringify(value));
  } catch { /* a private window: it lasts for this page */ }
  return null;
};
// What this browser remembers may have been written by another page of the same address: of a prompt only its letters are kept, and
// the marks that prompts are made with.
function plain(html) {
  const copied = (from, to) => {
    for (const node of from.childNodes) {
      if (node.nodeType === Node.TEXT_NODE) to.append(node.data);
      else if (node.nodeType === Node.ELEMENT_NODE) to.append(copied(node, ["CODE", "STRONG", "EM"].includes(node.tagName) ? make(node.tagName) : document.createDocumentFragment()));
    }
    return to;
  };
  return copied(new DOMParser().parseFromString(String(html), "text/html").body, document.createDocumentFragment());
}
const remembered = (kept) => Object.fromEntries(Object.entries(kept ?? {}).filter(([, a]) => typeof a?.text === "string").map(
  ([id, a]) => [id, { text: a.text, correct: a.correct === true, wrong: Number.isInteger(a.wrong) ? a.wrong : 0, points: Number(a.points) || 0 }]));
// A link that can be challenged: inputs, what stood there, and the version that said it. Whoever opens it sees whether that still holds.
const MOST_SAID = 1000;
const claim = (hash, text) => `${location.href.split("#")[0]}#${hash}${hash.endsWith("?") ? "" : "&"}${new URLSearchParams({ said: text.slice(0, MOST_SAID), version: tag.dataset.version.split("-")[0] })}`;
function claimed(query, now) {
  const text = query?.get("said")?.slice(0, MOST_SAID), version = String(query?.get("version") ?? "").slice(0, 40) || "of no name";
  return !text ? "" : text === now.slice(0, MOST_SAID) ? `So says the link too (version ${version}).` : `The link says, with version ${version}: ${text}. This is version ${tag.dataset.version.split("-")[0]}.`;
}
function said(root, text, isError = false) {
  const line = root.querySelector(":scope > .live-said");
  line.textContent = text;
  line.classList.toggle("live-wrong", isError);
}

// ---- views

class View {
  constructor(root) {
    this.root = root;
    this.name = root.dataset.liveView;
    this.inputs = [...root.querySelectorAll("[data-slider]")];
    this.figure = root.querySelector(".live-figure");
    this.list = root.querySelector("dl");
    this.at = {}; // where the sliders stood for what is shown, and what they said
    this.texts = Object.fromEntries(this.inputs.filter((i) => i.type === "range").map((i) => [i.dataset.slider, i.closest(".live-control").querySelector("output").textContent]));
    for (const input of this.inputs) {
      input.disabled = !engineMade || Boolean(root.dataset.needs);
      input.addEventListener("input", () => { this.readouts(); this.move(); });
    }
    if (root.dataset.needs) { root.querySelector(".live-bar").hidden = true; return; }
    if (engineMade) { // a hand that rests on the sliders is a touch: Python starts while it makes up its mind
      const controls = root.querySelector(".live-controls"), start = () => this.warm();
      let resting;
      for (const touch of ["pointerdown", "focusin"]) controls.addEventListener(touch, start, { once: true });
      controls.addEventListener("pointerenter", () => { if (!navigator.connection?.saveData) resting = setTimeout(start, 150); });
      controls.addEventListener("pointerleave", () => clearTimeout(resting));
    }
    for (const item of root.querySelectorAll("[data-preset]")) item.addEventListener("click", () => this.set(JSON.parse(item.dataset.preset)));
    root.querySelector(".live-reset")?.addEventListener("click", () => { this.set({}); history.replaceState(null, "", location.pathname + location.search); });
    root.querySelector(".live-share")?.addEventListener("click", async () => {
      this.address();
      const link = claim(`${this.name}?${this.query()}`, this.summary());
      try { await navigator.clipboard.writeText(link); said(root, "The address of this position is copied, with what stands here and the version that says it."); } catch { said(root, `The address of this position: ${link}`); }
    });
  }

  start(input) { return Number(input.dataset.start); }
  positions() { return Object.fromEntries(this.inputs.map((i) => [i.dataset.slider, i.type === "range" ? i.valueAsNumber : i.selectedIndex])); }

  value(input, at) {
    if (input.dataset.values) return JSON.parse(input.dataset.values)[at];
    return Number((Number(input.dataset.low) + at * Number(input.dataset.step)).toPrecision(12));
  }

  put(positions, texts) { // sliders that are not named go back to their start
    for (const input of this.inputs) {
      const at = positions[input.dataset.slider] ?? this.start(input);
      if (input.type === "range") input.value = at; else input.selectedIndex = at;
    }
    this.readouts(texts);
  }

  set(positions) {
    this.put(positions);
    this.move();
  }

  readouts(texts) { // until the library has written them
    for (const input of this.inputs.filter((i) => i.type === "range")) {
      const value = this.value(input, input.valueAsNumber), unit = input.dataset.unit;
      const text = texts?.[input.dataset.slider] ?? (unit === "%" ? `${Number((100 * value).toPrecision(4))} %` : `${value.toLocaleString("en")}${unit && unit !== "1" ? " " + (value === 1 ? unit.replace(/^([a-z-]{2,}?)(?:(?<=ch)es|s)(?=$|\/)/, "$1") : unit) : ""}`);
      input.setAttribute("aria-valuetext", text);
      input.closest(".live-control").querySelector("output").textContent = text;
    }
  }

  moved() { return this.inputs.filter((i) => (i.type === "range" ? i.valueAsNumber : i.selectedIndex) !== this.start(i)); }

  async known() { // what the build answered, one choice away from the start, where Python would read for long
    const { answers = {} } = await definitions(), moved = this.moved();
    return moved.length === 1 ? answers[this.name]?.[`${moved[0].dataset.slider}:${moved[0].selectedIndex}`] : undefined;
  }

  open() { return (this.opened ??= definitions().then((known) => ask("open", this.name, known.views[this.name])).then((spec) => { if (spec.error) throw new Error(spec.error); })); }

  async warm() { // what a first move reads, a program or a table, is read while the static picture stands
    if (this.warmed) return;
    this.warmed = true;
    try { await engine(); await this.open(); if (!this.moving) await ask("move", this.name, this.positions()); } catch { if (!this.moving) this.opened = undefined; this.warmed = false; }
  }

  async move() {
    if (this.root.dataset.needs) return;
    this.wanted = this.positions();
    if (this.moving) return;
    this.moving = true;
    try {
      if (!this.ready) {
        state(this.root, "loading");
        starting(this.root, "Reading …");
        engine().catch(() => {}); // while the definitions come
        const known = await this.known();
        if (known) {
          this.show(known, this.wanted);
          state(this.root, "ready");
          this.address();
          this.moving = false;
          this.warm();
          return;
        }
        await this.open();
        this.ready = true;
        said(this.root, "");
      }
      while (this.wanted) {
        const wanted = this.wanted, before = performance.now();
        this.wanted = undefined;
        this.show(await ask("move", this.name, wanted), wanted);
        const took = performance.now() - before;
        times.moves.push(took);
        this.slow ||= took > 60; // something was read for the first time, and other choices have more to read
      }
      state(this.root, "ready");
      this.address();
      if (this.slow) this.prepare();
    } catch (error) {
      this.opened = this.ready = this.wanted = undefined;
      this.put(this.at, this.texts); // the sliders say what the numbers below them are for
      state(this.root, "error");
      said(this.root, error.message, true);
    }
    this.moving = false;
  }

  prepare() { // while the reader looks, Python gets ready for the other choices, one at a time
    clearTimeout(this.resting);
    this.resting = setTimeout(async () => {
      if (!this.opened) return;
      if (waiting.size || (await ask("prepare", this.name).catch(() => false)) === true) this.prepare();
    }, 300);
  }

  show(found, at) {
    this.readouts(found.texts);
    this.root.classList.toggle("live-impossible", Boolean(found.error));
    clearTimeout(this.saying);
    if (found.error) { said(this.root, found.error, true); return; }
    this.at = at;
    this.texts = found.texts;
    const shown = this.root.querySelector(".live-shown");
    if (shown) { shown.innerHTML = found.shown; named(shown); }
    if (this.figure && found.figure) {
      this.figure.style.minHeight = `${Math.max(this.figure.offsetHeight, parseFloat(this.figure.style.minHeight) || 0)}px`; // nothing below jumps
      this.figure.innerHTML = found.figure;
      dispatchEvent(new Event("live-shown"));
    }
    const items = [...this.list.children];
    if (items.length === found.rows.length && items.every((item, i) => item.firstChild.textContent === found.rows[i][0])) {
      found.rows.forEach(([, value, text], i) => { const dd = items[i].lastChild; dd.dataset.value = value; if (dd.textContent !== text) dd.textContent = text; });
    } else {
      this.list.replaceChildren(...found.rows.map(([label, value, text]) => {
        const dd = make("dd", { textContent: text });
        dd.dataset.number = label; dd.dataset.value = value;
        return make("div", {}, make("dt", { textContent: label }), dd);
      }));
    }
    this.root.querySelector(".note").textContent = found.note;
    const summary = this.summary();
    said(this.root, claimed(this.claim, summary));
    this.claim = undefined;
    this.saying = setTimeout(() => { this.root.querySelector(".live-heard").textContent = summary; }, 600); // once the hand rests
  }

  summary() { return [...this.list.children].map((item) => `${item.firstChild.textContent}: ${item.lastChild.textContent}`).join("; ") || (this.root.querySelector(".live-shown")?.textContent ?? ""); }

  query() { return new URLSearchParams(this.moved().map((i) => [i.dataset.slider, this.value(i, i.type === "range" ? i.valueAsNumber : i.selectedIndex)])); }

  address() { // kept in the page's address, so that a position can be shared
    if (this.moved().length) history.replaceState(null, "", `#${this.name}?${this.query()}`);
  }

  fromAddress(query) {
    const positions = {};
    for (const input of this.inputs) {
      const wanted = query.get(input.dataset.slider);
      if (wanted === null) continue;
      const n = input.type === "range" ? Number(input.max) + 1 : input.options.length;
      const all = Array.from({ length: n }, (_, at) => this.value(input, at));
      let at = all.findIndex((v) => String(v) === wanted);
      if (at < 0 && Number.isFinite(Number(wanted)) && typeof all[0] === "number") {
        at = all.reduce((best, v, i) => (Math.abs(v - wanted) < Math.abs(all[best] - wanted) ? i : best), 0);
      }
      if (at >= 0) positions[input.dataset.slider] = at;
    }
    this.claim = query;
    this.set(positions);
    this.root.scrollIntoView({ behavior: calm.matches ? "auto" : "smooth", block: "center" });
  }
}

// ---- listings

async function named(where) { // equations by their numbers, works by their titles, as the build does: explain() has labels and keys
  const { equations = {}, works = {} } = await definitions().catch(() => ({}));
  const texts = document.createTreeWalker(where, NodeFilter.SHOW_TEXT), found = [];
  while (texts.nextNode()) if (/\[@eq-|[a-z]\d{4}/.test(texts.currentNode.data)) found.push(texts.currentNode);
  for (const text of found) {
    text.replaceWith(...text.data.split(/\[@(eq-[\w-]+)\]/).map((piece, i) => {
      if (i % 2 === 0) return piece.replace(/\b[a-z][a-z0-9]*\d{4}\w*/g, (key) => works[key] ?? key);
      return equations[piece] ? make("a", { className: "live-equation", href: equations[piece][0], textContent: equations[piece][1] }) : `[@${piece}]`;
    }));
  }
}

class Listing {
  constructor(root) {
    this.root = root;
    this.code = root.previousElementSibling.querySelector("code") ?? root.previousElementSibling;
    this.source = this.code.textContent;
    this.output = root.querySelector(".live-output");
    this.printed = this.output.innerHTML;
    this.runButton = button("Run", () => this.run());
    this.editButton = button("Edit", () => this.edit());
    this.stopButton = button("Stop", () => stopEngine(), { hidden: true });
    this.resetButton = button("As printed", () => this.reset(), { hidden: true });
    const bar = make("div", { className: "live-bar" }, this.runButton, this.editButton, this.stopButton, this.resetButton);
    root.prepend(bar);
  }

  text() { return this.editor?.text() ?? this.source; }

  async run() {
    if (this.busy) return;
    this.busy = true;
    state(this.root, "loading");
    this.runButton.disabled = true;
    this.stopButton.hidden = false;
    starting(this.root, "Running …");
    try {
      for (const earlier of listings) { // a listing may go on from those before it
        if (earlier === this) break;
        if (!earlier.ran) { await ask("run", earlier.text()); earlier.ran = true; }
      }
      const found = await ask("run", this.text());
      this.ran = true;
      this.output.innerHTML = found.shown;
      await named(this.output);
      said(this.root, found.error || (found.shown ? "" : "It ran, and printed nothing."), Boolean(found.error));
      state(this.root, "ready");
      this.resetButton.hidden = false;
    } catch (error) {
      said(this.root, error.message === "stopped" ? "Stopped. The next run starts afresh." : error.message, error.message !== "stopped");
      state(this.root, error.message === "stopped" ? "static" : "error");
    }
    this.busy = false;
    this.runButton.disabled = false;
    this.stopButton.hidden = true;
  }

  async edit() {
    if (this.editor) { this.editor.focus(); return; }
    const { open } = await import(new URL(`vendor/engine-${tag.dataset.engine}/editor.js`, assets));
    const place = make("div", { className: "live-editor" });
    this.root.prepend(place);
    this.editor = open(place, this.source, "Listing, to be changed; Control and Enter run it, Tab moves on", () => this.run());
    this.root.previousElementSibling.hidden = true;
    this.editButton.hidden = true;
    this.resetButton.hidden = false;
    this.editor.focus();
    engine().catch(() => {});
  }

  reset() {
    this.root.querySelector(".live-editor")?.remove();
    this.root.previousElementSibling.hidden = false;
    this.editor = undefined;
    this.editButton.hidden = false;
    this.resetButton.hidden = true;
    this.output.innerHTML = this.printed;
    said(this.root, "");
    state(this.root, "static");
    this.runButton.focus();
  }
}

// ---- questions

class Questions {
  constructor(root) {
    this.root = root;
    this.chapter = root.dataset.chapter;
    this.items = [...root.querySelectorAll("[data-question]")];
    this.form = root.querySelector(".live-name");
    this.name = this.form.querySelector("input");
    this.seed = String(stored("name") ?? "").slice(0, 200);
    this.answers = remembered(stored(`answers.${this.chapter}`));
    this.name.value = this.seed;
    this.form.addEventListener("submit", (event) => { event.preventDefault(); this.rename(this.name.value.trim()); });
    for (const item of this.items) this.bind(item);
    root.querySelector(".live-download").addEventListener("click", () => this.download());
    const kept = stored(`prompts.${this.chapter}`);
    if (kept && kept.seed === this.seed && kept.version === tag.dataset.version && Array.isArray(kept.prompts)) this.print(kept.prompts);
    else if (this.seed) said(this.root, "Your numbers come with the first touch of this section.");
    root.addEventListener("focusin", () => { if (this.seed && !this.mine) this.rename(this.seed); }, { once: true });
    if (keeper) this.rename(this.seed);
    this.progress();
  }

  bind(item) {
    const id = item.dataset.question, form = item.querySelector("form"), field = form.elements.answer;
    field.value = this.answers[id]?.text ?? "";
    const stop = button("Stop", () => stopEngine(), { hidden: true }); // code may hold a loop without an end
    if (field.tagName === "TEXTAREA") form.append(stop);
    const tried = make("span", { className: "live-tried", role: "status" }); // the same message twice looks like a dead button
    form.append(tried);
    form.addEventListener("submit", async (event) => {
      event.preventDefault();
      if (!field.value.trim()) { said(item, "Write an answer first."); return; }
      state(item, "loading");
      starting(item, "Checking …");
      stop.hidden = false;
      try {
        const found = await ask("check", id, field.value, this.seed, (this.answers[id]?.wrong ?? 0) + 1);
        if (found.error) throw new Error(found.error);
        const line = item.querySelector(":scope > .live-said");
        line.innerHTML = found.message;
        line.classList.toggle("live-wrong", !found.correct);
        line.classList.toggle("live-right", found.correct);
        item.dataset.correct = found.correct;
        const before = this.answers[id], tries = (before?.tries ?? 0) + 1;
        const counts = !found.correct && !["no-answer", "not-read"].includes(found.mistake) && before?.text !== field.value;
        this.answers[id] = { text: field.value, correct: found.correct, wrong: (before?.wrong ?? 0) + counts, tries, points: Math.max(before?.points ?? 0, found.points) };
        tried.textContent = `checked, attempt ${tries}`;
        stored(`answers.${this.chapter}`, this.answers);
        state(item, "ready");
        this.progress();
      } catch (error) {
        const stopped = error.message === "stopped";
        state(item, stopped ? "static" : "error");
        said(item, stopped ? "Stopped; this try does not count. Is there a loop that does not end?" : error.message, !stopped);
      }
      stop.hidden = true;
    });
    const more = item.querySelector(".live-hint"), place = item.querySelector(".live-hints");
    more.addEventListener("click", async () => {
      const stage = place.children.length + 1;
      if (stage > 1 + (this.answers[id]?.wrong ?? 0)) { said(item, "Try an answer first: the next hint comes after it."); return; }
      state(item, "loading");
      try {
        const found = await ask("hint", id, stage, this.seed);
        if (found.error) throw new Error(found.error);
        const box = make("div", { className: "live-one-hint" });
        box.innerHTML = found;
        place.append(box);
        state(item, "ready");
        if (stage >= Number(more.dataset.stages)) more.disabled = true;
        more.textContent = "Another hint";
      } catch (error) { state(item, "error"); said(item, error.message, true); }
    });
  }

  async rename(seed) {
    if (seed !== this.seed) { this.answers = {}; stored(`answers.${this.chapter}`, {}); for (const item of this.items) { item.querySelector("form").elements.answer.value = ""; item.querySelector(".live-hints").replaceChildren(); item.querySelector(".live-tried").textContent = ""; said(item, ""); delete item.dataset.correct; } }
    this.seed = seed;
    stored("name", seed);
    starting(this.root, "");
    try {
      const prompts = await ask("ask", this.items.map((i) => i.dataset.question), seed);
      if (prompts.error) throw new Error(prompts.error);
      this.print(prompts);
      stored(`prompts.${this.chapter}`, { seed, version: tag.dataset.version, prompts });
      said(this.root, seed ? `These are the numbers of ${seed}.` : "These are the numbers of the public example.");
    } catch (error) { said(this.root, error.message, true); }
    this.progress();
  }

  print(prompts) {
    this.mine = true;
    for (const found of prompts) {
      const item = this.items.find((i) => i.dataset.question === found?.id);
      if (item) item.querySelector(".live-prompt").replaceChildren(plain(found.prompt));
    }
  }

  progress() {
    const right = Object.values(this.answers).filter((a) => a.correct).length, tried = Object.keys(this.answers).length;
    this.root.querySelector("progress").value = right;
    this.root.querySelector(".live-count").textContent = `${right} of ${this.items.length} right${tried > right ? `, ${tried - right} tried` : ""}`;
    for (const item of this.items) if (this.answers[item.dataset.question]) item.dataset.correct = this.answers[item.dataset.question].correct;
  }

  async download() {
    try {
      const notebook = await (await fetch(new URL(this.root.dataset.notebook, document.baseURI))).text();
      const texts = Object.fromEntries(Object.entries(this.answers).map(([id, a]) => [id, a.text]));
      const made = await ask("hand_in", notebook, this.seed || "your-id", texts);
      if (made.error) throw new Error(made.error);
      const link = make("a", { href: URL.createObjectURL(new Blob([made], { type: "application/x-ipynb+json" })), download: `${this.seed || "your-id"}.ipynb` });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
      said(this.root, this.seed ? "Hand in this file; it bears your name and your answers." : "The file bears no name yet: write yours above, then download again.");
    } catch (error) { said(this.root, error.message, true); }
  }
}

// ---- numbers that answer

const box = make("dialog", { className: "live-number" });
box.setAttribute("aria-label", "Where this number comes from");

async function explain(span) {
  box.replaceChildren(make("p", { textContent: "…" }));
  if (!box.open) box.showModal();
  try {
    const known = (await definitions()).numbers[span.dataset.var];
    if (!known) throw new Error(`nothing is known of ${span.dataset.var}`);
    const rows = [["printed by", known.expression], ["with", known.inputs.join("\n")], ["in", known.file]].filter(([, v]) => v);
    const list = make("dl", {}, ...rows.map(([k, v]) => make("div", {}, make("dt", { textContent: k }), make("dd", {}, make("code", { textContent: v })))));
    const equations = known.equations.map((e) => make("li", {}, make("a", { href: e.href, textContent: e.name }), ` ${e.formula} (${e.source})`));
    const parts = [make("h2", { textContent: span.textContent }), make("p", { className: "live-key", textContent: span.dataset.var }), list];
    if (equations.length) parts.push(make("h3", { textContent: "Equations" }), make("ul", {}, ...equations));
    if (known.sources.length) parts.push(make("h3", { textContent: "Sources" }), make("p", { textContent: known.sources.join("; ") }));
    parts.push(make("h3", { textContent: "Tests that hold it" }), make("ul", {}, ...known.tests.map((t) => make("li", {}, make("code", { textContent: t })))));
    const report = make("textarea", { rows: 14, readOnly: false, hidden: true });
    report.setAttribute("aria-label", "Report, to be completed and sent");
    const challenge = button("Challenge this number", () => {
      report.value = [`The number ${span.textContent} (${span.dataset.var}) on ${document.title}`, location.href.split("#")[0], "",
        "I think it should be: ", "because (measurement, source, calculation): ", "", "What printed it:", ...rows.map(([k, v]) => `- ${k}: ${v.replaceAll("\n", "\n  ")}`),
        ...known.equations.map((e) => `- equation: ${e.label}, ${e.formula}, ${e.source}`), `- sources: ${known.sources.join("; ") || "none of its own"}`,
        `- tests: ${known.tests.join(", ")}`, `- version: ${tag.dataset.version}`].join("\n");
      report.hidden = false;
      copy.hidden = false;
      report.focus();
    });
    const copy = button("Copy the report", async () => { await navigator.clipboard.writeText(report.value); copy.textContent = "Copied"; }, { hidden: true });
    box.replaceChildren(...parts, make("div", { className: "live-bar" }, challenge, copy, button("Close", () => box.close())), report);
  } catch (error) { box.replaceChildren(make("p", { textContent: error.message }), button("Close", () => box.close())); }
}

const numbers = [...document.querySelectorAll(".printed[data-var]")];
if (numbers.length) {
  document.body.append(box);
  box.addEventListener("click", (event) => { if (event.target === box) box.close(); });
  document.addEventListener("click", (event) => {
    const span = event.target.closest?.(".printed[data-var]");
    if (span && !getSelection().toString()) { event.preventDefault(); explain(span); }
  });
  // Quiet for a keyboard and a screen reader, until somebody asks for them.
  const links = document.querySelector(".chapter-links");
  if (links) {
    const toggle = button("Numbers answer", () => {
      const on = toggle.getAttribute("aria-pressed") !== "true";
      toggle.setAttribute("aria-pressed", on);
      document.documentElement.classList.toggle("numbers-on", on);
      for (const span of numbers) {
        if (span.closest("a, button, summary, h1, h2, h3, h4, h5, h6")) continue;
        if (on) { span.tabIndex = 0; span.role = "button"; span.title = "Where this number comes from"; } else { span.removeAttribute("tabindex"); span.removeAttribute("role"); span.removeAttribute("title"); }
      }
    }, { title: "Mark every number that code printed; each says where it comes from" });
    toggle.setAttribute("aria-pressed", "false");
    links.append(make("p", {}, toggle, make("small", { textContent: " Tap a number in the text: it says which code printed it." })));
    document.addEventListener("keydown", (event) => {
      if ((event.key === "Enter" || event.key === " ") && event.target.matches?.(".printed[role=button]")) { event.preventDefault(); explain(event.target); }
    });
  }
}

// ---- begin

const views = new Map([...document.querySelectorAll("[data-live-view]")].map((root) => [root.dataset.liveView, new View(root)]));
const listings = engineMade ? [...document.querySelectorAll(".live-listing")].map((root) => new Listing(root)) : [];
const questions = [...document.querySelectorAll(".live-questions")].map((root) => new Questions(root));
document.documentElement.classList.add(engineMade ? "live" : "not-live");

function follow() {
  let address = location.hash.slice(1);
  try { address = decodeURI(address); } catch { /* not written by us: taken as it stands */ }
  const [name, query] = address.split("?");
  if (query !== undefined && views.has(name)) views.get(name).fromAddress(new URLSearchParams(query));
}
addEventListener("hashchange", follow);
follow();
// What was read stays readable without a network; the engine is fetched once.
if (!keeper && isSecureContext && "serviceWorker" in navigator && location.protocol !== "file:") {
  const parts = () => [location.href.split("#")[0], ...performance.getEntriesByType("resource").map((e) => e.name)];
  addEventListener("load", () => setTimeout(async () => {
    try {
      await navigator.serviceWorker.register(new URL("../../sw.js", assets));
      (await navigator.serviceWorker.ready).active.postMessage({ keep: [...parts(), home.href] });
    } catch { /* not allowed here: the page works, and needs its server */ }
  }));
}
window.mlsysimLive = { views, listings, questions, ask, engine, starting, stopEngine, claim, claimed }; // for a test, or a teacher's script
