// For readers who use a keyboard: boxes that fold answer to Enter and Space, boxes that scroll can be reached.
// Both builds load it; a page works without it, with fewer stops for the Tab key.
document.addEventListener("keydown", (event) => {
  const header = event.target.closest?.("[role=button][data-bs-toggle=collapse]");
  if (header && (event.key === "Enter" || event.key === " ")) {
    event.preventDefault();
    header.click();
  }
});

// What is wider than its box can be scrolled with the arrow keys once it has the focus; what fits is no stop.
const BOXES = "main :is(.cell-output-display, .cell-output, .quarto-float-tbl > div, .quarto-float > figure > div, .callout-body, " +
  ".callout-body-container, .wide, .table-scroll, .equation, .slider-table, .nowrap, .live-output, .live-shown, .live-html, .live-text, pre, math[display=block], :has(> math[display=block])), #quarto-sidebar, #TOC, #sidebar";
const scrolls = (box) => {
  const style = getComputedStyle(box);
  const sideways = box.scrollWidth > box.clientWidth + 1 && /auto|scroll/.test(style.overflowX);
  return sideways || (box.scrollHeight > box.clientHeight + 1 && /auto|scroll/.test(style.overflowY));
};
const reach = () => {
  for (const box of document.querySelectorAll(BOXES)) {
    const ours = box.dataset.reach === "yes";
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
reach();
