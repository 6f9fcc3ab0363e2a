// The field that searches the preview's pages. The index was made with the pages and comes at the first touch.
import MiniSearch from "./minisearch.js";

const root = new URL("../", import.meta.url);
let index;
const read = async () => {
  const made = await (await fetch(new URL("search.json", import.meta.url))).json();
  return MiniSearch.loadJS(made.index, made.options);
};
const ready = () => (index ??= read().catch((error) => { index = undefined; throw error; }));

const box = document.createElement("search");
box.className = "find";
box.innerHTML = '<label for="find">Search the book</label><input id="find" type="search" placeholder="Search" autocomplete="off" spellcheck="false"><output role="status"></output><ol></ol>';
const field = box.querySelector("input"), count = box.querySelector("output"), list = box.querySelector("ol");
field.addEventListener("focus", () => ready().catch(() => {}), { once: true });
field.addEventListener("input", async () => {
  const wanted = field.value.trim();
  if (wanted.length < 2) { list.replaceChildren(); count.textContent = ""; return; }
  try {
    const found = (await ready()).search(wanted, { boostDocument: (id, _, { title }) => (title.toLowerCase() === wanted.toLowerCase() ? 20 : /^book\/\d\d-/.test(id) ? 4 : 1) });
    if (field.value.trim() !== wanted) return; // a later letter has its own answer
    count.textContent = `${found.length} place${found.length === 1 ? "" : "s"}`;
    list.replaceChildren(...found.slice(0, 20).map(({ id, title, page, lead }) => {
      const item = document.createElement("li"), link = document.createElement("a"), about = document.createElement("p");
      link.href = new URL(id, root);
      link.textContent = title;
      about.textContent = title === page ? lead : `${page}: ${lead}`;
      item.append(link, about);
      return item;
    }));
  } catch { count.textContent = "The index did not arrive. Is there a connection?"; }
});
box.addEventListener("keydown", (event) => {
  const stops = [field, ...list.querySelectorAll("a")], at = stops.indexOf(document.activeElement);
  if (event.key === "Escape") { field.value = ""; list.replaceChildren(); count.textContent = ""; field.focus(); }
  else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    stops[Math.max(0, Math.min(stops.length - 1, at + (event.key === "ArrowDown" ? 1 : -1)))].focus();
  }
});
document.querySelector(".topbar").append(box);
