// For readers who use a keyboard: boxes that fold answer to Enter and Space, boxes that scroll can be reached. For all readers:
// a box that goes on beyond its edge says so, and the names of the rows stay in sight.
// Both builds load it; a page works without it, with fewer stops for the Tab key.
document.addEventListener("keydown", (event) => {
  const header = event.target.closest?.("[role=button][data-bs-toggle=collapse]");
  if (header && (event.key === "Enter" || event.key === " ")) {
    event.preventDefault();
    header.click();
  }
});

// What is wider than its box can be scrolled with the arrow keys once it has the focus; what fits is no stop.
const BOXES = "main :is(.cell-output-display, .cell-output, .callout-body, .callout-body-container, " +
  ".table-scroll, .equation, .slider-table, .nowrap, div.sourceCode, .live-output, .live-shown, .live-html, .live-text, pre, math[display=block], :has(> math[display=block])), #quarto-sidebar, #TOC, #sidebar";
const scrolls = (box) => {
  const style = getComputedStyle(box);
  const sideways = box.scrollWidth > box.clientWidth + 1 && /auto|scroll/.test(style.overflowX);
  return sideways || (box.scrollHeight > box.clientHeight + 1 && /auto|scroll/.test(style.overflowY));
};
// Which edge of a box hides more of it: the style sheet lets it fade there.
const edges = (box) => {
  const { scrollLeft: left, scrollWidth, clientWidth } = box, right = scrollWidth - clientWidth - left;
  const more = !/auto|scroll/.test(getComputedStyle(box).overflowX) || scrollWidth <= clientWidth + 1 ? "" : left > 2 ? (right > 2 ? "both" : "left") : "right";
  if (more !== (box.dataset.more ?? "")) { if (more) box.dataset.more = more; else delete box.dataset.more; }
  return more;
};
// The first column stays where it heads rows, leaves room for the others, and no cell of it reaches further.
const heads = (box) => {
  const table = box.querySelector("table"), first = table?.rows[0]?.cells[0];
  const fits = first && table.rows[0].cells.length > 2 && first.offsetWidth <= 0.45 * box.clientWidth;
  return fits && !table.querySelector("tr > :is([rowspan]:not([rowspan='1']), :first-child[colspan]:not([colspan='1']))");
};
const reach = () => {
  for (const box of document.querySelectorAll(BOXES)) {
    const ours = box.dataset.reach === "yes";
    if (edges(box) && box.matches(".table-scroll")) box.toggleAttribute("data-first", Boolean(heads(box)));
    if (scrolls(box)) {
      if (!box.hasAttribute("tabindex")) { box.tabIndex = 0; box.dataset.reach = "yes"; }
    } else if (ours) { box.removeAttribute("tabindex"); delete box.dataset.reach; }
  }
};
let waiting = 0;
const soon = () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(reach); };
addEventListener("resize", soon);
addEventListener("load", soon);
document.addEventListener("shown.bs.collapse", soon);
document.addEventListener("toggle", soon, true);
document.addEventListener("scroll", ({ target }) => { if (target.dataset?.more) edges(target); }, { capture: true, passive: true });
let resting = 0; // what a live page puts in is looked at once it rests
new MutationObserver(() => { clearTimeout(resting); resting = setTimeout(soon, 300); }).observe(document.querySelector("main") ?? document.body, { childList: true, subtree: true });
reach();
