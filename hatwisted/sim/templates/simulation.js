"use strict";
// Every moment in full: a recorded one holds only what has changed.
const run = JSON.parse(document.getElementById("recording").textContent);
const moments = [];
for (const change of run.moments) {
  const before = moments.at(-1) ?? { hosts: {}, links: {}, answers: {} };
  const hosts = { ...before.hosts };
  for (const [name, figures] of Object.entries(change.hosts ?? {})) hosts[name] = { ...hosts[name], ...figures };
  moments.push({
    at: change.at,
    hosts,
    links: { ...before.links, ...change.links },
    answers: { ...before.answers, ...change.answers },
  });
}
const happened = [
  ...run.events.map(event => ({ at: event.at, what: event.what })),
  ...run.faults.map(({ at, ends, kind, about }) => {
    const lasts = ends > at ? ` for ${(ends - at).toFixed(2)} s` : "";
    return { at, what: `fault: ${kind} ${about}`.trim() + lasts };
  }),
].sort((one, other) => one.at - other.at);
const greatest = Math.max(1, ...moments.flatMap(each => run.brokers.map(name => each.hosts[name]?.end ?? 0)));
const STEP = 0.25;

function lastUpTo(list, time) {
  let low = 0, high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle].at <= time) low = middle + 1; else high = middle;
  }
  return low - 1;
}

function element(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

const find = id => document.getElementById(id);
const slider = find("time"), clock = find("clock"), playButton = find("play");
const end = Math.ceil((moments.at(-1).at + 1) / STEP) * STEP;
const narrow = window.matchMedia("(max-width: 44rem)").matches;
slider.max = end;

// -- the group ----------------------------------------------------------------------------------------------

const WIDTH = 200, HEIGHT = 84, MEMBER_WIDTH = narrow ? WIDTH : 164, MEMBER_HEIGHT = 60;
const places = narrow
  ? { names: [240, 50], a: [106, 186], b: [374, 186], clients: [240, 322] }
  : { names: [360, 50], a: [112, 174], b: [608, 174], clients: [360, 298] };
const pairs = [["a", "b"], ["a", "names"], ["b", "names"], ["a", "clients"], ["b", "clients"], ["clients", "names"]];
// Members of consumer groups stand below all others.
const members = run.members, abreast = narrow ? 2 : 4;
members.forEach((name, number) => {
  const row = Math.floor(number / abreast), column = number % abreast;
  places[name] = narrow ? [106 + 268 * column, 430 + 80 * row] : [94 + 177 * column, 408 + 80 * row];
  for (const other of ["a", "b", "names"]) pairs.push([name, other].sort());
});
const stage = find("stage"), cards = {}, wires = {};
const below = Math.ceil(members.length / abreast) * 80 + (members.length ? 16 : 0);
stage.setAttribute("viewBox", narrow ? `0 0 480 ${372 + below}` : `0 0 720 ${348 + below}`);
for (const [one, other] of pairs) {
  const [x1, y1] = places[one], [x2, y2] = places[other];
  const wire = element("line", { class: "link", x1, y1, x2, y2 });
  const note = element("text", { class: "link-note", x: (x1 + x2) / 2, y: (y1 + y2) / 2 - 8 });
  wires[`${one} ${other}`] = { wire, note };
  stage.append(wire);
}
for (const [name, [x, y]] of Object.entries(places)) {
  const broker = run.brokers.includes(name), member = members.includes(name);
  const width = member ? MEMBER_WIDTH : WIDTH, height = member ? MEMBER_HEIGHT : HEIGHT;
  const left = x - width / 2, top = y - height / 2;
  const state = element("text", { class: "state", x: left + width - 12, y: top + 24, "text-anchor": "end" });
  const detail = element("text", { class: "dim", x: left + 12, y: top + 45 });
  const title = broker ? `broker ${name}` : { names: "name server", clients: "producers" }[name] ?? name;
  const card = element("g", { class: "host", "data-host": name },
    element("rect", { class: "frame", x: left, y: top, width, height, rx: 8 }),
    element("text", { class: "name", x: left + 12, y: top + 25 }, title), state, detail);
  const bars = {};
  if (broker) {
    for (const kind of ["room", "written", "flushed"]) {
      const size = kind === "room" ? WIDTH - 24 : 0;
      bars[kind] = element("rect", { class: `bar ${kind}`, x: left + 12, y: top + 58, width: size, height: 12, rx: 3 });
      card.append(bars[kind]);
    }
  }
  cards[name] = { card, state, detail, bars };
  stage.append(card);
}
for (const { note } of Object.values(wires)) stage.append(note);

function showGroup(moment, time) {
  for (const [name, { card, state, detail, bars }] of Object.entries(cards)) {
    const host = moment.hosts[name] ?? { state: name === "clients" ? "runs" : "down" };
    card.classList.toggle("gone", host.state === "down" || host.state === "off");
    card.classList.toggle("paused", host.state === "paused");
    const told = host.state === "runs" ? host.role ?? "" : host.state;
    state.textContent = told;
    if (name === "clients") detail.textContent = `${total(moment.answers)} answers`;
    else if (host.given !== undefined) detail.textContent = `group given ${host.given}`;
    else if (host.role === "slave" && host.link) detail.textContent = `link: ${host.link}`;
    else if (host.waiting !== undefined && host.waiting !== null) detail.textContent = `${host.waiting} waits for the slave`;
    else detail.textContent = "";
    for (const [kind, figure] of [["written", host.end], ["flushed", host.flushed]]) {
      bars[kind]?.setAttribute("width", (WIDTH - 24) * (figure ?? 0) / greatest);
    }
  }
  for (const [pair, { wire, note }] of Object.entries(wires)) {
    const [count, marks = ""] = (moment.links[pair] ?? "0").split(" ");
    wire.classList.toggle("cut", marks !== "");
    wire.classList.toggle("none", marks === "" && count === "0");
    const [one, other] = pair.split(" ");
    note.textContent = { "": "", "<>": "cut", ">": `cut ${one} → ${other}`, "<": `cut ${other} → ${one}` }[marks];
  }
}

const total = counts => Object.values(counts).reduce((sum, count) => sum + count, 0);

// -- figures ------------------------------------------------------------------------------------------------

const ROWS = [["start", "log begins"], ["end", "log ends"], ["flushed", "flushed"], ["acknowledged", "slave has"],
  ["reported", "reported"]];
const figures = find("figures"), cells = {};
const head = figures.createTHead().insertRow();
for (const title of ["", ...run.brokers]) {
  const cell = document.createElement("th");
  cell.textContent = title;
  cell.style.textAlign = "right";
  head.append(cell);
}
const body = figures.createTBody();
for (const [key, label] of ROWS) {
  const row = body.insertRow();
  const title = document.createElement("th");
  title.textContent = label;
  row.append(title);
  for (const name of run.brokers) {
    const cell = row.insertCell();
    cell.dataset.figure = `${name}.${key}`;
    cells[cell.dataset.figure] = cell;
  }
}

function showFigures(moment) {
  for (const [key, cell] of Object.entries(cells)) {
    const [name, figure] = key.split(".");
    cell.textContent = moment.hosts[name]?.[figure] ?? "–";
  }
  const rows = Object.entries(moment.answers).map(([code, count]) => {
    const row = document.createElement("tr");
    const title = document.createElement("th");
    title.textContent = run.codes[code] ?? code;
    const cell = document.createElement("td");
    cell.dataset.answer = code;
    cell.textContent = count;
    row.append(title, cell);
    return row;
  });
  find("answers").replaceChildren(...rows);
}

function showEvents(time) {
  const last = lastUpTo(happened, time);
  const lines = happened.slice(Math.max(0, last - 7), last + 1).reverse().map(event => {
    const line = document.createElement("li");
    const when = document.createElement("time");
    when.textContent = event.at.toFixed(2);
    line.append(when, event.what);
    return line;
  });
  find("events").replaceChildren(...lines);
}

// -- the whole run ------------------------------------------------------------------------------------------

const SIZE = narrow ? 480 : 900, LEFT = narrow ? 108 : 92, CHART = 150, ROW = 18, TEXT = narrow ? "17px" : "12px";
const kinds = [...new Set(run.faults.map(fault => fault.kind))];
const bottom = 12 + CHART + run.brokers.length * ROW + 12 + kinds.length * ROW;
const timeline = find("timeline");
timeline.setAttribute("viewBox", `0 0 ${SIZE} ${bottom + 24}`);
const across = time => LEFT + (SIZE - LEFT - 10) * Math.min(1, time / end);
const up = offset => 12 + CHART - CHART * offset / greatest;

function label(text, y) {
  timeline.append(element("text", { x: LEFT - 8, y, "text-anchor": "end", class: "dim", style: `font-size:${TEXT}` }, text));
}

/** A stepped line of one figure; it stops where there is no process. */
function path(name, figure) {
  let drawn = "", before = null;
  for (const moment of moments) {
    const value = moment.hosts[name]?.[figure] ?? null;
    const x = across(moment.at).toFixed(1);
    if (value === null) {
      if (before !== null) drawn += `H${x}`;
    } else if (before === null) drawn += `M${x} ${up(value).toFixed(1)}`;
    else if (value !== before) drawn += `H${x}V${up(value).toFixed(1)}`;
    before = value;
  }
  return before === null ? drawn : drawn + `H${across(end).toFixed(1)}`;
}

for (const offset of [0, greatest]) {
  timeline.append(element("line", { class: "grid", x1: LEFT, x2: SIZE - 10, y1: up(offset), y2: up(offset) }));
  label(offset.toLocaleString("en"), up(offset) + 4);
}
const every = [5, 10, 20, 30, 60, 120].find(step => end / step <= (narrow ? 5 : 12)) ?? 300;
for (let time = 0; time <= end; time += every) {
  timeline.append(element("line", { class: "grid", x1: across(time), x2: across(time), y1: 12, y2: bottom }));
  timeline.append(element("text", { x: across(time), y: bottom + 18, "text-anchor": "middle", class: "dim tick",
    style: `font-size:${TEXT}` }, `${time} s`));
}
for (const name of run.brokers) {
  timeline.append(element("path", { class: `line flushed ${name}`, d: path(name, "flushed") }));
  timeline.append(element("path", { class: `line ${name}`, d: path(name, "end") }));
}
run.brokers.forEach((name, number) => {
  const y = 12 + CHART + 8 + number * ROW;
  label(`broker ${name}`, y + 10);
  let kind = "", since = 0;
  const close = until => {
    if (kind === "") return;
    const x = across(since), width = across(until) - x;
    timeline.append(element("rect", { class: `band ${name} ${kind}`, x, y, width, height: ROW - 6 }));
  };
  for (const { at, hosts } of moments) {
    const { state, role } = hosts[name] ?? {};
    const next = state === "runs" ? role : state === "paused" ? state : "";
    if (next === kind) continue;
    close(at);
    [kind, since] = [next, at];
  }
  close(end);
});
const bars = run.faults.map(fault => {
  const y = 12 + CHART + 12 + run.brokers.length * ROW + kinds.indexOf(fault.kind) * ROW;
  const width = Math.max(3, across(fault.ends) - across(fault.at));
  const bar = element("rect", { class: "fault", x: across(fault.at), y, width, height: ROW - 6, rx: 2 },
    element("title", {}, `${fault.kind} ${fault.about}, ${fault.at} s to ${fault.ends} s`));
  timeline.append(bar);
  return { fault, bar };
});
kinds.forEach((kind, number) => label(kind, 12 + CHART + 22 + run.brokers.length * ROW + number * ROW));
const now = element("line", { class: "now", y1: 6, y2: bottom });
timeline.append(now);

const sample = (shape, text) => {
  const picture = element("svg", { viewBox: "0 0 22 10" }, shape);
  const item = document.createElement("span");
  item.append(picture, text);
  return item;
};
const lineOf = kind => element("path", { class: `line ${kind}`, d: "M0 5H22" });
const boxOf = kind => element("rect", { class: kind, x: 0, y: 0, width: 22, height: 10, rx: 2 });
find("legend").append(
  ...run.brokers.map(name => sample(lineOf(name), `log of ${name}`)),
  ...run.brokers.map(name => sample(lineOf(`flushed ${name}`), `flushed on ${name}`)),
  sample(boxOf("band a master"), "master"), sample(boxOf("band a slave"), "slave"),
  sample(boxOf("fault"), "paused, or a fault"),
);

// -- the time that is shown ---------------------------------------------------------------------------------

let shown = 0;

function show(time) {
  shown = Math.min(end, Math.max(0, time));
  slider.value = shown;
  clock.textContent = `${shown.toFixed(2)} s`;
  const moment = moments[Math.max(0, lastUpTo(moments, shown))];
  showGroup(moment, shown);
  showFigures(moment);
  showEvents(shown);
  for (const { fault, bar } of bars) bar.classList.toggle("past", shown < fault.at || shown >= fault.ends);
  now.setAttribute("x1", across(shown));
  now.setAttribute("x2", across(shown));
}

let playing = 0, drawnAt = 0;

function frame(time) {
  if (!playing) return;
  show(shown + (time - drawnAt) / 1000 * Number(find("speed").value));
  drawnAt = time;
  playing = shown < end ? requestAnimationFrame(frame) : play(false);
}

function play(on) {
  if (on && shown >= end) show(0);
  playButton.textContent = on ? "⏸" : "▶";
  playButton.setAttribute("aria-label", on ? "Pause" : "Play");
  drawnAt = performance.now();
  playing = on ? requestAnimationFrame(frame) : 0;
  return 0;
}

slider.addEventListener("input", () => { play(false); show(Number(slider.value)); });
playButton.addEventListener("click", () => play(!playing));

const nextEvent = () => happened.find(event => event.at > shown)?.at ?? end;
const eventBefore = () => happened.findLast(event => event.at < shown)?.at ?? 0;
const KEYS = {
  ArrowRight: event => shown + (event.shiftKey ? 5 : STEP), ArrowLeft: event => shown - (event.shiftKey ? 5 : STEP),
  ".": nextEvent, ",": eventBefore, Home: () => 0, End: () => end,
};
document.addEventListener("keydown", event => {
  if (event.altKey || event.ctrlKey || event.metaKey || event.target.tagName === "SELECT") return;
  if (event.key === " " && event.target !== playButton) play(!playing);
  else if (event.key in KEYS) { play(false); show(KEYS[event.key](event)); }
  else return;
  event.preventDefault();
});

function drag(event) {
  const box = timeline.getBoundingClientRect();
  const x = (event.clientX - box.left) / box.width * SIZE;
  play(false);
  show(Math.round((x - LEFT) / (SIZE - LEFT - 10) * end / STEP) * STEP);
}
timeline.addEventListener("pointerdown", event => { timeline.setPointerCapture(event.pointerId); drag(event); });
timeline.addEventListener("pointermove", event => { if (event.buttons) drag(event); });

show(Number(location.hash.match(/^#t=([\d.]+)$/)?.[1] ?? 0));
