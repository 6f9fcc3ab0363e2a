// A chapter's questions in a course system, by SCORM 1.2 or 2004. live.js asks and checks as on the book's page; what it would keep
// in the browser it gives to window.mlsysimKeeper, which keeps it in the course system and reports the points.
const tag = document.querySelector("script[data-live]");
const { chapter, version, points, pass } = JSON.parse(tag.textContent);
const root = document.querySelector(".live-questions"), line = document.querySelector(".course-system");
const NEW = version === "2004", LIMIT = NEW ? 64000 : 4096; // characters of suspend_data that every course system must hold
const [LEARNER, MODE, MARK, STATUS, TIME, EXIT] = NEW
  ? ["cmi.learner_id", "cmi.mode", "cmi.scaled_passing_score", "cmi.completion_status", "cmi.session_time", "cmi.exit"]
  : ["cmi.core.student_id", "cmi.core.lesson_mode", "cmi.student_data.mastery_score", "cmi.core.lesson_status", "cmi.core.session_time", "cmi.core.exit"];
const SCORE = NEW ? "cmi.score" : "cmi.core.score", total = Object.values(points).reduce((a, b) => a + b);
const began = Date.now();
let api, learner = "", only = "", kept = { attempt: "", saves: 0, answers: {} }, ended = false, open = false, again, tried = false;

function say(text, wrong = false) {
  line.textContent = text;
  line.classList.toggle("live-wrong", wrong);
}

function find() { // in the windows around this one, then in the one that opened it, as both standards say
  for (const first of [() => window.parent, () => window.opener, () => window.top.opener]) {
    try {
      for (let at = first(), n = 0; at && n < 100; at = at.parent, n++) {
        const found = at[NEW ? "API_1484_11" : "API"];
        if (found) return found;
        if (at === at.parent) break;
      }
    } catch { /* a window of another address */ }
  }
}

function call(what, ...given) { // a run-time may say "false", false, nothing at all, or throw
  try { return String(api[NEW ? what : `LMS${what === "Terminate" ? "Finish" : what}`](...given) ?? ""); } catch { return "false"; }
}
const get = (name) => { const found = call("GetValue", name); return found === "false" ? "" : found; };
const set = (name, value) => call("SetValue", name, String(value)) === "true";
const why = () => { const code = call("GetLastError"); return Number(code) ? ` (error ${code}: ${call("GetErrorString", code)})` : ""; };

// ---- what is kept

const ascii = (text) => text.replace(/[\u007f-\uffff]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`);

// All answers in so many characters; where they are too long, the longest go without their text, never without their points.
function packed(most) {
  const rows = Object.entries(kept.answers).map(([id, a]) => [id, [a.wrong, a.points, Number(a.correct), a.text]]), without = [];
  for (;;) {
    const text = ascii(JSON.stringify({ attempt: kept.attempt, saves: kept.saves, answers: Object.fromEntries(rows) }));
    if (text.length <= most) return { text, without };
    const [id, row] = rows.reduce((a, b) => ((b[1][3] ?? "").length > (a[1][3] ?? "").length ? b : a), ["", []]);
    if (!row[3]) return undefined;
    row.pop();
    without.push(id);
  }
}

function unpacked(text) {
  const { attempt, saves, answers } = JSON.parse(text), known = Object.entries(answers).filter(([id]) => id in points);
  return { attempt: String(attempt), saves: Number(saves), answers: Object.fromEntries(known.map(
    ([id, [wrong, got, correct, words]]) => [id, { wrong, points: Math.min(got, points[id]), correct: correct === 1, text: words ?? "" }])) };
}

function store() { // a run-time may hold less than its standard asks for
  for (let most = LIMIT, made; (made = packed(most)); most = Math.floor(made.text.length / 2)) {
    if (set("cmi.suspend_data", made.text)) return made;
  }
}

// What the course system has not taken waits in this browser, under the learner's id.
const waiting = `mlsysim.waiting.${chapter}.${version}`;
function wait(taken) {
  try {
    if (taken) localStorage.removeItem(`${waiting}.${learner}`);
    else localStorage.setItem(`${waiting}.${learner}`, JSON.stringify({ known: tried, kept: { ...kept, answers: JSON.parse(packed(1e6).text).answers } }));
  } catch { /* a private window, or a full one: the course system alone */ }
}
function left() {
  try {
    const { known, kept: found } = JSON.parse(localStorage.getItem(`${waiting}.${learner}`)) ?? {};
    return found && { known, ...unpacked(JSON.stringify(found)) };
  } catch { return undefined; }
}

// ---- what is reported

const share = () => Object.values(kept.answers).reduce((sum, a) => sum + (a.points || 0), 0) / total;
const whole = () => ended || (Object.keys(kept.answers).length === Object.keys(points).length && share() >= 1 - 1e-9);
const percent = (x) => `${Number((100 * x).toFixed(1))} %`;
const result = () => `${Number((share() * total).toFixed(2))} of ${total} points, ${percent(share())}`;

function mark() { // the course system's own pass mark goes before ours
  const given = parseFloat(get(MARK));
  return Number.isFinite(given) ? given / (NEW ? 1 : 100) : pass;
}

function report() {
  const passed = share() >= mark() - 1e-9, done = whole();
  const raw = NEW ? share() * total : 100 * share(); // 1.2 wants it from 0 to 100
  const all = [[`${SCORE}.raw`, Number(raw.toFixed(2))], [`${SCORE}.min`, 0], [`${SCORE}.max`, NEW ? total : 100]];
  if (NEW) all.push(["cmi.score.scaled", Number(share().toFixed(4))], ["cmi.success_status", passed ? "passed" : done ? "failed" : "unknown"]);
  all.push([STATUS, !done ? "incomplete" : NEW ? "completed" : passed ? "passed" : "failed"]);
  return all.filter(([name, value]) => !set(name, value) && !/\.m(in|ax)$/.test(name)).length === 0; // 1.2 may lack min and max
}

function save() {
  clearTimeout(again);
  wait(false);
  const made = store(), reported = made && (!Object.keys(kept.answers).length || report());
  const taken = Boolean(made && reported && call("Commit", "") === "true");
  if (taken) { tried = true; wait(true); } else again = setTimeout(save, 10000);
  const short = made?.without.length ? ` The course system has no room for the text of ${made.without.join(", ")}: its points are kept, its text is not.` : "";
  if (!taken) say(`The course system did not take this${why()}. What you answer is kept in this browser and sent again; leave the page open.`, true);
  else if (Object.keys(kept.answers).length) say(`Reported: ${result()}.${short}`, Boolean(short));
  else say("Nothing is answered yet.");
  return taken;
}

window.addEventListener("online", () => { if (again) save(); });

function leave(exit) {
  if (!open) return;
  const s = Math.round((Date.now() - began) / 1000), two = (n) => String(Math.floor(n)).padStart(2, "0");
  set(TIME, NEW ? `PT${s}S` : `${two(s / 3600).padStart(4, "0")}:${two((s / 60) % 60)}:${two(s % 60)}`);
  set(EXIT, exit);
  call("Commit", "");
  open = call("Terminate", "") !== "true";
}
window.addEventListener("pagehide", () => leave(!whole() ? "suspend" : NEW ? "normal" : ""));
window.addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); }); // what was left has to be opened again

const hand = Object.assign(document.createElement("button"), { type: "button", className: "live-button", textContent: "Hand in and end this attempt" });
hand.addEventListener("click", () => {
  if (!hand.dataset.sure) { hand.dataset.sure = "yes"; hand.textContent = `End it with ${result()}? Click again`; return; }
  ended = true;
  if (!save()) { ended = false; return; }
  const passed = share() >= mark() - 1e-9;
  leave(NEW ? "normal" : "");
  root.inert = true;
  hand.disabled = true;
  say(`Handed in: ${result()}, ${passed ? "passed" : "not passed"}. You can close this page; another attempt is for the course system to give.`);
});

// ---- begin

const free = () => new Promise((found) => { // whether this browser has the chapter open in no other tab; then it is held until this one closes
  if (!navigator.locks) { found(true); return; }
  navigator.locks.request(waiting, { ifAvailable: true }, (lock) => { found(Boolean(lock)); return lock && new Promise(() => {}); }).catch(() => found(true));
});

function stop(text) {
  root.inert = true;
  say(text, true);
}

async function begin() {
  root.querySelector(".live-download").hidden = true; // the course system has the answers
  if (!(await free())) { stop("This chapter is open in another tab. Go on there, or close it and load this page again: two at once would overwrite each other's answers."); return; }
  api = find();
  if (!api) { say("There is no course system around this page: you can practise, and nothing is reported."); await import("./live.js"); return; }
  open = call("Initialize", "") === "true";
  if (!open) { stop(`The course system did not open this page${why()}, so nothing could be reported. Load it again, or tell your lecturer.`); return; }
  learner = get(LEARNER);
  const mode = get(MODE), text = get("cmi.suspend_data"), held = left();
  if (text) {
    try { kept = unpacked(text); tried = true; } catch { stop("What the course system kept of this attempt cannot be read. Tell your lecturer before you go on: a new attempt would begin with nothing."); return; }
  }
  // What waits here counts where it is of this attempt; or of one that the course system never heard of, and it knows none.
  if (held && (text ? held.attempt === kept.attempt && held.saves > kept.saves : !held.known)) kept = held;
  kept.attempt ||= Math.random().toString(36).slice(2, 10);
  if (mode === "review" || mode === "browse") only = "You are looking at this chapter: you can try, and nothing is reported.";
  window.mlsysimKeeper = (name, value) => {
    if (name === "name") return learner;
    if (name !== `answers.${chapter}`) return null;
    if (value === undefined) return kept.answers;
    kept.answers = value;
    kept.saves++;
    delete hand.dataset.sure;
    hand.textContent = "Hand in and end this attempt";
    if (!only && open) save();
    return null;
  };
  root.querySelector("p").textContent = `Your numbers come from your id, ${learner || "which this course system does not give; these are the public ones"}. The best answer to each question counts.`;
  root.querySelector(".live-name").hidden = true;
  for (const prompt of root.querySelectorAll(".live-prompt")) prompt.textContent = "…";
  if (only) say(only); else { root.querySelector(".live-progress").append(hand); save(); }
  await import("./live.js");
}

begin();
