// The page works without any of this: it only adds a theme switch, a folding menu on small screens and copy buttons.
const root = document.documentElement;

document.getElementById("theme").addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  try { localStorage.setItem("theme", root.dataset.theme); } catch (e) { /* private window: the choice lasts for this page */ }
});

const menu = document.getElementById("menu");
root.classList.add("js");
const here = document.querySelector('#sidebar a[aria-current="page"]');
const open = (yes) => {
  root.classList.toggle("menu-open", yes);
  menu.setAttribute("aria-expanded", String(yes));
  if (yes) here?.scrollIntoView({ block: "center" });
};
menu.addEventListener("click", () => open(!root.classList.contains("menu-open")));
document.addEventListener("keydown", (e) => {
  if (e.key === "Escape" && root.classList.contains("menu-open")) { open(false); menu.focus(); }
});
document.querySelectorAll("#sidebar a").forEach((a) => a.addEventListener("click", () => open(false)));
here?.scrollIntoView({ block: "nearest" });

document.querySelectorAll("div.sourceCode").forEach((block) => {
  const button = Object.assign(document.createElement("button"), { className: "copy", type: "button", textContent: "Copy" });
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(block.querySelector("code").textContent);
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 1500);
  });
  block.append(button);
});

// The section in view is marked in the sidebar.
const links = new Map([...document.querySelectorAll(".toc a")].map((a) => [a.getAttribute("href").slice(1), a]));
const observer = new IntersectionObserver((entries) => {
  for (const entry of entries) {
    if (entry.isIntersecting) {
      links.forEach((a) => a.removeAttribute("aria-current"));
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
    }
  }
}, { rootMargin: "0px 0px -70% 0px" });
links.forEach((_, id) => { const h = document.getElementById(decodeURIComponent(id)); if (h) observer.observe(h); });
