// Walks the live views of pages in Firefox, by keyboard, and prints what each shows: node walk.mjs FIREFOX BASE SLUG...
import puppeteer from "puppeteer-core";

const [, , executablePath, base, ...slugs] = process.argv;
const browser = await puppeteer.launch({ browser: "firefox", executablePath, headless: true, timeout: 300_000, protocolTimeout: 600_000 });
const found = {};
try {
  for (const slug of slugs) {
    const page = await browser.newPage();
    page.setDefaultTimeout(300_000);
    await page.setViewport({ width: 390, height: 840 });
    const errors = [];
    page.on("pageerror", (error) => errors.push(String(error)));
    await page.goto(`${base}/book/${slug}.html`, { waitUntil: "load" });
    const names = await page.$$eval("[data-live-view]:not([data-needs])", (all) => all.map((e) => e.dataset.liveView));
    const views = {};
    for (const name of names) {
      const control = await page.$(`[data-live-view=${name}] [data-slider]`);
      const key = await control.evaluate((e) => {
        if (e.tagName === "SELECT") return e.selectedIndex < e.options.length - 1 ? "ArrowDown" : "ArrowUp";
        return e.valueAsNumber < Number(e.max) ? "ArrowRight" : "ArrowLeft";
      });
      await control.focus();
      await control.press(key);
      views[name] = await page.evaluate(async (name) => {
        const view = window.mlsysimLive.views.get(name);
        const until = Date.now() + 240_000;
        while ((view.moving || !["ready", "error"].includes(view.root.dataset.state)) && Date.now() < until) await new Promise((go) => setTimeout(go, 5));
        const rows = [...view.root.querySelectorAll("dd[data-number]")].map((e) => [e.dataset.number, e.dataset.value]);
        return { state: view.moving ? "still moving" : view.root.dataset.state, positions: view.positions(), rows, drawings: view.root.querySelectorAll("figure svg").length };
      }, name);
    }
    found[slug] = { views, errors, wide: await page.evaluate(() => document.documentElement.scrollWidth > innerWidth) };
    await page.close();
  }
} finally {
  await browser.close();
}
console.log(JSON.stringify(found));
