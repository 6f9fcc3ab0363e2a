// A list of stills becomes a stepper: buttons, arrow keys, and play where motion is wanted. Without this script, and in print,
// it stays a list of stills with a sentence each.
(() => {
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  for (const frames of document.querySelectorAll("div.frames")) {
    const stills = [...frames.querySelectorAll(":scope > ol > li")];
    if (stills.length < 2 || frames.dataset.ready) continue;
    frames.dataset.ready = "true";
    let at = 0, playing = 0;
    const bar = document.createElement("div");
    bar.className = "frames-bar";
    const button = (text, label, act) => {
      const made = document.createElement("button");
      made.type = "button";
      made.textContent = text;
      made.setAttribute("aria-label", label);
      made.addEventListener("click", act);
      bar.append(made);
      return made;
    };
    const stop = () => { clearInterval(playing); playing = 0; if (play) { play.textContent = "play"; play.setAttribute("aria-label", "play all steps"); } };
    const show = (to, said = true) => {
      at = Math.max(0, Math.min(stills.length - 1, to));
      stills.forEach((li, i) => { li.hidden = i !== at; });
      back.disabled = at === 0;
      next.disabled = at === stills.length - 1;
      count.textContent = `${at + 1} of ${stills.length}`;
      if (said) live.textContent = `${at + 1} of ${stills.length}. ${stills[at].querySelector("figcaption").textContent}`;
    };
    const back = button("◀", "one step back", () => { stop(); show(at - 1); });
    const count = document.createElement("span");
    bar.append(count);
    const next = button("▶", "one step on", () => { stop(); show(at + 1); });
    const play = still.matches ? null : button("play", "play all steps", () => {
      if (playing) { stop(); return; }
      if (at === stills.length - 1) show(0, false);
      play.textContent = "stop";
      play.setAttribute("aria-label", "stop");
      playing = setInterval(() => { show(at + 1, false); if (at === stills.length - 1) stop(); }, 1800);
    });
    const live = document.createElement("span");
    live.className = "frames-live";
    live.setAttribute("aria-live", "polite");
    bar.append(live);
    frames.append(bar);
    frames.tabIndex = 0;
    frames.addEventListener("keydown", (event) => {
      const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: stills.length - 1 }[event.key];
      if (to === undefined || event.target.closest("button")) return;
      event.preventDefault();
      stop();
      show(to);
    });
    const tallest = Math.max(...stills.map((li) => { stills.forEach((o) => { o.hidden = o !== li; }); return li.offsetHeight; }));
    frames.style.setProperty("--tallest", `${tallest}px`);
    show(0, false);
    addEventListener("beforeprint", () => stills.forEach((li) => { li.hidden = false; }));
    addEventListener("afterprint", () => show(at, false));
  }
})();
