// What a page gives its reader beyond its text: links that show what they lead to, a guess that comes back at its answer, long
// tables that sort and filter, chapters that were read. Both builds load it; without it the text is all there.
(() => {
  const make = (name, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...children);
    return made;
  };
  const chapter = (path) => path.match(/\d\d-[\w-]+(?=\.html$)/)?.[0];
  const here = chapter(location.pathname);
  const kept = (name, value) => { // in this browser alone; one that keeps nothing forgets with the page
    try {
      if (value === undefined) return JSON.parse(localStorage.getItem(`mlsysim.${name}`) ?? "null");
      localStorage.setItem(`mlsysim.${name}`, JSON.stringify(value));
    } catch { /* a private window */ }
    return null;
  };

  // ---- links: a term of the glossary in both builds; sources, equations and figures where Quarto's own boxes are not there
  const TERM = 'main a[href*="glossary.html#gl-"]', OTHER = "main a:is(.quarto-xref, [role=doc-biblioref])";
  const HINTED = window.tippy ? TERM : `${TERM}, ${OTHER}`;
  const pages = new Map();
  const read = (path) => {
    if (path === location.href.split("#")[0]) return document;
    if (!pages.has(path)) pages.set(path, fetch(path).then((got) => got.text()).then((html) => new DOMParser().parseFromString(html, "text/html")));
    return pages.get(path);
  };
  async function led(link) { // copies of what a link leads to: a term with its meaning, a heading with its first paragraph, or one thing
    const path = link.href.split("#")[0], page = await read(path), id = decodeURIComponent(link.hash.slice(1));
    const found = id ? page.getElementById(id) : page.querySelector("main h1");
    if (!found) return [];
    const term = found.closest("dt"), after = [];
    for (let next = (term ?? found).nextElementSibling; next && !after.length; next = next.nextElementSibling) {
      if (next.matches("p, dd") && next.textContent.trim()) after.push(next);
    }
    const parts = term ? [term, ...after] : /^H\d$/.test(found.tagName) ? [found, ...after] : [found];
    return parts.map((part) => {
      const copy = part.cloneNode(true);
      for (const node of [copy, ...copy.querySelectorAll("*")]) {
        for (const name of ["src", "href"]) if (node.hasAttribute(name)) node.setAttribute(name, new URL(node.getAttribute(name), path).href);
        node.removeAttribute("id");
      }
      for (const still of copy.querySelectorAll(".frames li:not(:first-child), .frames-bar")) still.remove();
      return copy;
    });
  }
  const hint = make("div", { id: "hint", className: "hint", role: "tooltip", hidden: true });
  let shown, soon, pointer = "mouse";
  const hide = () => { clearTimeout(soon); hint.hidden = true; shown?.removeAttribute("aria-describedby"); shown = undefined; };
  async function show(link) {
    if (shown === link) return;
    const parts = await led(link).catch(() => []);
    hide();
    if (!parts.length) return;
    shown = link;
    hint.replaceChildren(...parts);
    hint.hidden = false;
    link.setAttribute("aria-describedby", "hint");
    const line = link.getClientRects()[0], { width, height } = hint.getBoundingClientRect();
    const below = line.bottom + 6 + height < innerHeight || line.top < height;
    hint.style.left = `${scrollX + Math.max(8, Math.min(line.left, document.documentElement.clientWidth - width - 8))}px`;
    hint.style.top = `${scrollY + (below ? line.bottom + 6 : line.top - 6 - height)}px`;
  }
  const later = (act, wait) => { clearTimeout(soon); soon = setTimeout(act, wait); };
  const inside = (target) => target.closest?.("#hint");
  document.body.append(hint);
  addEventListener("pointerdown", ({ pointerType, target }) => {
    pointer = pointerType;
    if (!inside(target) && !target.closest?.(HINTED)) hide();
  }, true);
  addEventListener("pointerover", ({ pointerType, target }) => {
    const link = target.closest?.(HINTED);
    if (pointerType === "mouse" && link) later(() => show(link), 150);
    else if (inside(target)) clearTimeout(soon);
  });
  addEventListener("pointerout", ({ pointerType, target }) => { if (pointerType === "mouse" && (inside(target) || target.closest?.(HINTED))) later(hide, 250); });
  addEventListener("focusin", ({ target }) => { if (target.matches?.(HINTED) && pointer !== "touch") show(target); });
  addEventListener("focusout", ({ target }) => { if (target === shown && pointer !== "touch") hide(); });
  addEventListener("keydown", ({ key }) => { pointer = "key"; if (key === "Escape") hide(); });
  let tapped; // the first tap shows, the second follows
  addEventListener("click", (event) => {
    const link = event.target.closest?.(`${TERM}, ${OTHER}`);
    if (!link || pointer !== "touch" || tapped === link) { tapped = undefined; return; }
    event.preventDefault();
    event.stopPropagation();
    tapped = link;
    if (link._tippy) link._tippy.show(); else show(link);
  }, true);

  // ---- the guess: asked for in the box, shown where the book answers, beside what the page prints there
  const WORDS = { same: 1, all: 1, twice: 2, double: 2, half: 0.5, tenth: 0.1, two: 2, three: 3, threefold: 3, four: 4, five: 5, six: 6, eight: 8, nine: 9, ten: 10 };
  const TIMES = { thousand: 1e3, k: 1e3, million: 1e6, billion: 1e9 };
  function measured(text) { // the first number of a text, and what follows it
    const digits = text.replaceAll("\u00a0", " ").match(/([-−+~]?\d[\d,]*\.?\d*(?:e[-+]?\d+)?)\s*(thousand|k\b|million|billion)?\s*(\S*)/);
    if (digits) return { value: Number(digits[1].replace("−", "-").replace(/[~,+]/g, "")) * (TIMES[digits[2]] ?? 1), unit: digits[3] };
    const word = text.toLowerCase().split(/[^a-z]+/).find((one) => one in WORDS);
    return word ? { value: WORDS[word], unit: "" } : null;
  }
  const neat = (value) => value.toLocaleString("en", { maximumSignificantDigits: 2 });
  function scale(guess, answer, ask) { // both on one line, logarithmic where they lie far apart
    const both = [guess, answer], log = Math.min(...both) > 0 && Math.max(...both) / Math.min(...both) > 4;
    const ticks = [];
    if (log) for (let power = Math.floor(Math.log10(Math.min(...both))); power <= Math.ceil(Math.log10(Math.max(...both))); power++) ticks.push(10 ** power);
    else {
      const low = Math.min(0, ...both), rough = (Math.max(0, ...both) - low) / 4 || 1, ten = 10 ** Math.floor(Math.log10(rough));
      const step = ten * [1, 2, 5, 10].find((n) => n * ten >= rough);
      for (let at = Math.floor(low / step); at * step < Math.max(...both) + step; at++) ticks.push(at * step);
    }
    const f = log ? Math.log10 : (v) => v, [low, high] = [f(ticks[0]), f(ticks.at(-1))];
    const x = (value) => 20 + (360 * (f(value) - low)) / (high - low || 1);
    const word = (value, y, text, kind) => `<text x="${Math.max(45, Math.min(355, x(value)))}" y="${y}" text-anchor="middle" class="${kind}">${text}</text>`;
    const mark = (value, y, text, kind) => `<line x1="${x(value)}" x2="${x(value)}" y1="${y < 30 ? 18 : 40}" y2="${y < 30 ? 40 : 62}" class="${kind}"/><circle cx="${x(value)}" cy="40" r="5" class="${kind}"/>${word(value, y, text, kind)}`;
    const drawn = make("div", { className: "guess-scale" });
    drawn.innerHTML = `<svg viewBox="0 0 400 92" role="img"><line x1="20" x2="380" y1="40" y2="40"/>${ticks.map((v) => `<line x1="${x(v)}" x2="${x(v)}" y1="36" y2="44"/>${word(v, 88, neat(v), "tick")}`).join("")}${mark(guess, 13, "your guess", "guess-yours")}${mark(answer, 74, "the book", "guess-book")}</svg>`;
    drawn.firstChild.setAttribute("aria-label", `${ask}: your guess ${neat(guess)}, the book ${neat(answer)}`);
    return drawn;
  }
  function onto({ place }, guess) { // a guess of what a view's axis shows stands in that view, wherever its sliders are
    const figure = document.querySelector(`[data-live-view="${place.dataset.view}"] .live-figure`), svg = figure?.querySelector("svg");
    const axis = svg?.dataset[place.dataset.axis], value = measured(guess)?.value * Number(place.dataset.times ?? 1);
    figure?.querySelectorAll(".guess-here").forEach((one) => one.remove());
    if (!axis || !Number.isFinite(value)) return;
    const [start, end, low, high, log] = axis.split(" ").map((part, i) => (i < 4 ? Number(part) : part)), f = log ? Math.log10 : (v) => v;
    const at = start + ((f(value) - f(low)) / (f(high) - f(low))) * (end - start), seen = value >= low && value <= high;
    const [a, b] = svg.dataset[place.dataset.axis === "x" ? "y" : "x"].split(" ");
    const line = document.createElementNS(svg.namespaceURI, "path");
    line.setAttribute("d", place.dataset.axis === "x" ? `M${at} ${a}V${b}` : `M${a} ${at}H${b}`);
    line.setAttribute("class", "guess-here");
    if (seen) svg.append(line);
    figure.append(make("p", { className: "guess-here" }, `Your guess: ${guess.trim()}${seen ? "" : ", beyond this axis"}`));
  }
  const asks = [...document.querySelectorAll("main .guess")].map((place) => ({ ask: place.dataset.ask, answer: place.dataset.answer, place }));
  if (here && asks.length) {
    const found = kept(`guess.${here}`), texts = [...asks, 0].map((_, i) => (typeof found?.[i] === "string" ? found[i].slice(0, 500) : ""));
    const back = () => {
      for (const place of document.querySelectorAll("main .guessed")) {
        const lines = asks.flatMap(({ ask, answer }, i) => {
          const guess = texts[i].trim(), [mine, right] = [guess, answer].map(measured);
          if (!guess || (place.dataset.of && !place.dataset.of.split(" ").includes(String(i + 1)))) return [];
          const told = make("p", {}, `${ask} You guessed `, make("strong", { textContent: guess }), ", the book says ", make("strong", { textContent: answer }), ".");
          const alike = mine && right && (!mine.unit || !right.unit || mine.unit === right.unit);
          return alike ? [told, scale(mine.value, right.value, ask)] : [told];
        });
        const why = texts.at(-1).trim();
        if (lines.length && why) lines.push(make("p", {}, "You wrote: ", make("em", { textContent: why })));
        place.replaceChildren(...lines);
      }
      asks.forEach((one, i) => { if (one.place.dataset.view) onto(one, texts[i]); });
    };
    addEventListener("live-shown", back);
    const field = (text, i, tag) => {
      const input = make(tag, { value: texts[i], maxLength: 500, autocomplete: "off" });
      input.addEventListener("input", () => { texts[i] = input.value; kept(`guess.${here}`, texts); back(); });
      return make("label", {}, text, input);
    };
    const form = make("form", { className: "guess-form" }, ...asks.map(({ ask }, i) => field(ask, i, "input")), field("Why, in a sentence", asks.length, "textarea"),
      make("p", { textContent: "Your guess stays in this browser, and comes back at the answer." }));
    form.addEventListener("submit", (event) => event.preventDefault());
    asks[0].place.append(form);
    back();
  }

  // ---- long tables: a click on a head sorts, one field filters them and the boxes that fold, where there are as many
  const LONG = 20, PREFIX = { n: 1e-9, µ: 1e-6, m: 1e-3, k: 1e3, K: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18 };
  const tables = [...document.querySelectorAll("main table")].filter((table) => table.tHead && table.tBodies[0]?.rows.length > LONG
    && [...table.tBodies[0].rows].every((row) => row.cells[0]?.textContent.trim())); // rows in groups keep their order
  function sortable(text) { // 1.2 TB/s stands above 900 GB/s; what has no number comes last
    const found = text.replace(/,(?=\d{3})/g, "").replace("−", "-").match(/^[~+]?(-?\d+(?:\.\d+)?)\s*([nµmkKMGTPE](?=[A-Za-z]))?(?!\d*[-\w]*[A-Za-z]\d)/);
    return found ? Number(found[1]) * (found[2] && !/^\S*\s*(min|month|mile)/.test(text) ? PREFIX[found[2]] : 1) : NaN;
  }
  for (const table of tables) {
    const body = table.tBodies[0], first = [...body.rows], heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      if (!head.textContent.trim()) return;
      const button = make("button", { type: "button", className: "sort" }, ...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const next = { ascending: "descending", descending: "none" }[head.ariaSort] ?? "ascending";
        for (const one of heads) one.removeAttribute("aria-sort");
        if (next !== "none") head.ariaSort = next;
        const keys = new Map(first.map((row) => { const text = row.cells[column]?.textContent.trim() ?? ""; return [row, { text, value: sortable(text) }]; }));
        const numbers = [...keys.values()].filter(({ value }) => !Number.isNaN(value)).length * 2 > first.length, turn = next === "descending" ? -1 : 1;
        const order = (a, b) => {
          const [one, other] = [keys.get(a), keys.get(b)];
          if (!numbers) return turn * one.text.localeCompare(other.text, "en", { numeric: true });
          if (Number.isNaN(one.value) || Number.isNaN(other.value)) return Number.isNaN(one.value) - Number.isNaN(other.value);
          return turn * (one.value - other.value);
        };
        body.append(...(next === "none" ? first : [...first].sort(order)));
      });
    });
  }
  if (tables.length) {
    const rows = tables.flatMap((table) => [...table.tBodies[0].rows]), folded = [...document.querySelectorAll("main .callout:is(details, :has(.callout-collapse))")];
    const all = folded.length > LONG ? [...rows, ...folded] : rows;
    const words = all.map((one) => one.textContent.toLowerCase());
    const field = make("input", { type: "search", autocomplete: "off", spellcheck: false });
    const count = make("output", { role: "status" });
    let place = tables[0].closest(".table-scroll") ?? tables[0];
    for (let box = place.closest(".callout"); box; box = box.parentElement.closest(".callout")) place = box;
    const before = place.previousElementSibling?.matches(".table-caption") ? place.previousElementSibling : place;
    before.before(make("search", { className: "filter" }, make("label", {}, tables.length > 1 ? "Find in the tables of this page" : "Find in this table", field), count));
    field.addEventListener("input", () => {
      const wanted = field.value.toLowerCase().split(/\s+/).filter(Boolean);
      all.forEach((one, i) => { one.hidden = !wanted.every((word) => words[i].includes(word)); });
      for (const fold of wanted.length ? document.querySelectorAll("main .callout:has(button.sort)") : []) { // what is found is seen
        if (!fold.querySelector("button.sort").closest("table").querySelector("tbody tr:not([hidden])")) continue;
        if (fold.matches("details")) fold.open = true;
        else fold.querySelector(".callout-collapse")?.classList.add("show");
      }
      const left = (some, name) => `${some.filter((one) => !one.hidden).length} of ${some.length} ${name}`;
      count.textContent = wanted.length ? left(rows, "rows") + (all === rows ? "" : `, ${left(folded, "boxes")}`) : "";
    });
  }

  // ---- which chapters were read to their takeaway, marked where a page lists ways through the book
  const done = new Set([kept("read") ?? []].flat());
  for (const stop of document.querySelectorAll(".ways a")) stop.classList.toggle("read", done.has(chapter(stop.pathname)));
  const end = document.querySelector(".takeaway");
  if (end && here) new IntersectionObserver((seen) => { if (seen.some(({ isIntersecting }) => isIntersecting)) kept("read", [...done.add(here)]); }).observe(end);
})();
