"use strict";
const ROW = 20, LANE = 16, LABEL = 210, MAX_ROWS = 4096;
const COLOURS = { cmd: "#1976a3", mmio: "#8d99a5", eqe: "#a0439b", irq: "#3c8c3c", wqe: "#3f51b5",
  cqe: "#c98a00", fault: "#b3261e", reset: "#000000" };
const get = (id) => document.getElementById(id);
const meta = JSON.parse(get("meta").textContent);
const chunks = document.querySelectorAll("script[type='x-details']");
const total = meta.events, starts = new Float64Array(total), lasts = new Float32Array(total);
const tracks = new Uint16Array(total), names = new Uint16Array(total);
const abouts = new Uint16Array(total), getters = new Uint16Array(total);
const off = new Set();
let shown = new Uint32Array(0), from = 0, to = 1, whole = [0, 1], chosen = -1, only = -1, queue = 0;
let lanes = [], laneOf = new Int32Array(meta.tracks.length), found = null;

async function inflate(element) {
  const text = atob(element.textContent), bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Response(stream);
}

async function loadIndex() {
  await Promise.all([...document.querySelectorAll("script[type='x-index']")].map(
    async (element, at) => {
      const data = await (await inflate(element)).arrayBuffer(), count = data.byteLength / 20;
      const first = at * meta.chunk;
      starts.set(new Float64Array(data, 0, count), first);
      lasts.set(new Float32Array(data, count * 8, count), first);
      tracks.set(new Uint16Array(data, count * 12, count), first);
      names.set(new Uint16Array(data, count * 14, count), first);
      abouts.set(new Uint16Array(data, count * 16, count), first);
      getters.set(new Uint16Array(data, count * 18, count), first);
      element.remove();
    }));
}

const kept = new Map();
async function details(chunk) {
  if (!kept.has(chunk)) {
    kept.set(chunk, inflate(chunks[chunk]).then((got) => got.text()).then((t) => t.split("\n")));
    if (kept.size > 24) kept.delete(kept.keys().next().value);
  }
  return kept.get(chunk);
}

function choose() {
  const wanted = new Uint8Array(meta.names.length);
  meta.names.forEach(([point], number) => { wanted[number] = off.has(point) ? 0 : 1; });
  const picked = new Uint32Array(total);
  let count = 0;
  for (let i = 0; i < total; i++) {
    if (wanted[names[i]] && (only < 0 || tracks[i] === only) &&
        (!queue || abouts[i] === queue || getters[i] === queue) && (!found || found[i])) {
      picked[count++] = i;
    }
  }
  shown = picked.subarray(0, count);
  const used = new Uint8Array(meta.tracks.length);
  for (const i of shown) used[tracks[i]] = 1;
  lanes = [...used.keys()].filter((track) => used[track]).sort((a, b) =>
    meta.tracks[a][0] - meta.tracks[b][0] || meta.tracks[a][2] - meta.tracks[b][2] ||
    meta.tracks[a][1].localeCompare(meta.tracks[b][1], "en", { numeric: true }));
  laneOf.fill(-1);
  lanes.forEach((track, lane) => { laneOf[track] = lane; });
  get("tall").style.height = `${lanes.length * LANE + 20}px`;
  get("long").style.height = `${Math.min(count * ROW, 3e7)}px`;
  get("track").hidden = only < 0;
  get("queue").hidden = !queue;
  if (only >= 0) get("track").textContent = `only ${title(only)} ✕`;
  get("says").textContent = `${count.toLocaleString()} of ${total.toLocaleString()} events`;
  draw(); list();
}

const counted = (kinds) => Object.entries(kinds).map(([name, number]) =>
  `${number.toLocaleString()} ${name}`).join(", ");

function showQueues() {
  if (!meta.queues.length) return;
  const table = get("queues").appendChild(document.createElement("table"));
  const head = table.createTHead().insertRow(), body = table.createTBody();
  for (const text of ["queue", "attributes", "states", "requests or events", "completions",
    "errors"]) {
    head.appendChild(document.createElement("th")).textContent = text;
  }
  for (const [place, owner, kind, id, about, life, requests, done, errors] of
    meta.queues.slice(0, MAX_ROWS)) {
    const row = body.insertRow(), name = `${meta.functions[owner]} ${kind} ${number(id)}`;
    for (const text of [name, about, life, counted(requests), done || "", counted(errors)]) {
      row.insertCell().textContent = text;
    }
    row.lastChild.className = "refused";
    row.onclick = () => {  // a second click shows all queues again
      queue = queue === place ? 0 : place;
      for (const one of body.rows) one.className = "";
      if (queue) row.className = "chosen";
      get("queue").textContent = `only ${name} ✕`;
      choose();
    };
  }
}

const title = (track) => `${meta.tracks[track][0] < 0 ? "" : `${meta.functions[meta.tracks[track][0]]} `}${meta.tracks[track][1]}`;
const seconds = (us) => `${(us / 1e6).toFixed(6)}`;

function draw() {
  const box = get("lines"), canvas = box.firstChild, scale = window.devicePixelRatio || 1;
  const wide = box.clientWidth, high = box.clientHeight, top = box.scrollTop;
  canvas.width = wide * scale; canvas.height = high * scale;
  canvas.style.width = `${wide}px`; canvas.style.height = `${high}px`;
  get("tall").style.marginTop = `${-high}px`;
  const paint = canvas.getContext("2d");
  paint.scale(scale, scale);
  const room = wide - LABEL, per = room / (to - from), first = Math.floor(top / LANE);
  const last = Math.min(lanes.length, first + Math.ceil(high / LANE) + 1);
  paint.font = "11px system-ui, sans-serif";
  for (let lane = first; lane < last; lane++) {
    const y = lane * LANE - top + 20;
    if (lane % 2) { paint.fillStyle = "#f4f7f9"; paint.fillRect(0, y, wide, LANE); }
    paint.fillStyle = "#1c2733";
    paint.fillText(title(lanes[lane]), 6, y + 12, LABEL - 12);
  }
  const taken = new Uint8Array((last - first + 1) * Math.ceil(room + 1));
  for (const i of shown) {
    const lane = laneOf[tracks[i]];
    if (lane < first || lane >= last || starts[i] > to || starts[i] + lasts[i] < from) continue;
    const x = Math.max(0, (starts[i] - from) * per), w = Math.max(1.5, lasts[i] * per);
    const cell = (lane - first) * Math.ceil(room + 1) + Math.floor(x);
    if (w < 2 && taken[cell]) continue;
    taken[cell] = 1;
    paint.fillStyle = COLOURS[meta.names[names[i]][0]] || "#555";
    paint.fillRect(LABEL + x, lane * LANE - top + 22, Math.min(w, room - x), LANE - 4);
    if (w > 60) {
      paint.fillStyle = "#fff";
      paint.fillText(meta.names[names[i]][1], LABEL + x + 3, lane * LANE - top + 32, w - 6);
    }
  }
  paint.fillStyle = "#fff"; paint.fillRect(0, 0, wide, 20);
  paint.fillStyle = "#68737e";
  const rough = (to - from) / 6, power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((one) => one * power >= rough);
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
    const x = LABEL + (t - from) * per;
    paint.fillRect(x, 0, 1, 20);
    paint.fillText(`${seconds(t)} s`, x + 3, 13);
  }
  if (chosen >= 0) {
    paint.fillStyle = "#b3261e";
    paint.fillRect(LABEL + (starts[chosen] - from) * per, 20, 1, high);
  }
}

function brief(value, depth = 0) {
  if (Array.isArray(value)) return `[${value.map((one) => brief(one, depth + 1)).join(", ")}]`;
  if (value === null || typeof value !== "object") return number(value);
  const parts = Object.entries(value).map(([name, one]) => `${name}=${brief(one, depth + 1)}`);
  return depth ? `{${parts.join(" ")}}` : parts.join(" ");
}

const number = (value) => Number.isInteger(value) && value > 9 ? `0x${value.toString(16)}` :
  String(value);

let listing = 0;
async function list() {
  const box = get("list"), mine = ++listing, high = box.clientHeight;
  const full = shown.length * ROW, tall = Math.min(full, 3e7);
  const part = tall > high ? box.scrollTop / (tall - high) : 0;
  const at = Math.max(0, part * (full - high)) / ROW, first = Math.floor(at), rows = [];
  for (let i = first; i < Math.min(shown.length, at + high / ROW + 1); i++) {
    const event = shown[i], row = document.createElement("div");
    const lines = await details(Math.floor(event / meta.chunk));
    if (mine !== listing) return;
    const fields = JSON.parse(lines[event % meta.chunk]), [point, name] = meta.names[names[event]];
    row.className = event === chosen ? "row chosen" : "row";
    row.style.top = `${(i - at) * ROW}px`;
    const parts = [["b", seconds(starts[event])], ["u", title(tracks[event])], ["em", name],
      ["span", brief(fields).slice(0, 400)]];
    for (const [tag, text] of parts) {
      const element = row.appendChild(document.createElement(tag));
      element.textContent = text;
      if (tag === "em") element.style.color = COLOURS[point] || "#555";
    }
    row.onclick = () => select(event, false);
    rows.push(row);
  }
  get("rows").replaceChildren(...rows);
}

async function select(event, scroll) {
  chosen = event;
  const lines = await details(Math.floor(event / meta.chunk)), box = get("detail");
  const fields = JSON.parse(lines[event % meta.chunk]), head = document.createElement("h2");
  head.textContent = `${meta.names[names[event]][1]}, ${title(tracks[event])}, ` +
    `${seconds(starts[event])} s`;
  if ("syndrome" in fields) head.className = "refused";
  box.replaceChildren(head, tree(fields));
  if (scroll) {
    const place = shown.indexOf(event), full = shown.length * ROW, tall = Math.min(full, 3e7);
    get("list").scrollTop = Math.max(0, place * ROW - 60) * (tall / full);
  }
  draw(); list();
}

function tree(value) {
  const list = document.createElement("dl");
  for (const [name, one] of Object.entries(value)) {
    const label = list.appendChild(document.createElement("dt"));
    const body = list.appendChild(document.createElement("dd"));
    label.textContent = name;
    if (one !== null && typeof one === "object") { body.append("\u00a0", tree(one)); continue; }
    body.textContent = Number.isInteger(one) && one > 9 ? `${one} (${number(one)})` : one;
  }
  return list;
}

let searching = 0;
async function search(text) {
  const mine = ++searching, needle = text.trim().toLowerCase();
  found = null;
  if (needle) {
    const numeric = /^0x[0-9a-f]+$/.test(needle) ? String(BigInt(needle)) : null;
    const exact = numeric && new RegExp(`[:\\[,]${numeric}[,}\\]]`), hits = new Uint8Array(total);
    for (let chunk = 0; chunk < chunks.length; chunk++) {
      const lines = (await (await inflate(chunks[chunk])).text()).split("\n");
      if (mine !== searching) return;
      lines.forEach((line, at) => {
        const event = chunk * meta.chunk + at;
        const hit = line.toLowerCase().includes(needle) || exact && exact.test(line) ||
          meta.names[names[event]][1].toLowerCase().includes(needle) ||
          title(tracks[event]).toLowerCase().includes(needle);
        if (hit) hits[event] = 1;
      });
      get("says").textContent = `searching, ${Math.round(100 * chunk / chunks.length)} %`;
    }
    found = hits;
  }
  choose();
}

function look(start, end) {
  const least = 0.05;
  from = Math.max(whole[0], start); to = Math.min(whole[1], Math.max(end, from + least));
  draw();
}

function listen() {
  const canvas = get("lines").firstChild;
  const time = (x) => from + (x - LABEL) * (to - from) / (canvas.clientWidth - LABEL);
  let down = null;
  canvas.onwheel = (event) => {
    if (event.shiftKey) return;
    event.preventDefault();
    const at = time(event.offsetX), by = event.deltaY > 0 ? 1.3 : 1 / 1.3;
    look(at - (at - from) * by, at + (to - at) * by);
  };
  canvas.onmousedown = (event) => { down = event.offsetX; };
  canvas.onmouseup = (event) => {
    const start = down;
    down = null;
    if (start !== null && Math.abs(event.offsetX - start) > 4) {
      look(time(Math.min(start, event.offsetX)), time(Math.max(start, event.offsetX)));
      return;
    }
    const track = lanes[Math.floor((event.offsetY + get("lines").scrollTop - 20) / LANE)];
    if (track === undefined) return;
    if (event.offsetX < LABEL) { only = only === track ? -1 : track; choose(); return; }
    let best = -1, near = Infinity;
    for (const i of shown) {
      if (tracks[i] !== track) continue;
      const t = time(event.offsetX);
      const away = Math.max(starts[i] - t, t - starts[i] - lasts[i], 0);
      if (away < near) { near = away; best = i; }
    }
    if (best >= 0) select(best, true);
  };
  get("lines").onscroll = draw;
  get("list").onscroll = list;
  window.onresize = () => { draw(); list(); };
  get("all").onclick = () => look(...whole);
  get("track").onclick = () => { only = -1; choose(); };
  get("queue").onclick = () => { document.querySelector("#queues .chosen").click(); };
  get("search").onchange = () => search(get("search").value);
  for (const point of new Set(meta.names.map(([name]) => name))) {
    const label = get("points").appendChild(document.createElement("label"));
    const box = label.appendChild(document.createElement("input"));
    const colour = label.appendChild(document.createElement("i"));
    box.type = "checkbox"; box.checked = true;
    colour.style.background = COLOURS[point] || "#555";
    label.append(point);
    box.onchange = () => { if (box.checked) off.delete(point); else off.add(point); choose(); };
  }
}

loadIndex().then(() => {
  let end = 1;
  for (let i = 0; i < total; i++) end = Math.max(end, starts[i] + lasts[i]);
  whole = [Math.min(0, starts[0] || 0), end];
  [from, to] = whole;
  showQueues();
  listen();
  choose();
  // FILE#123 selects event 123, FILE#text searches for the text.
  const asked = decodeURIComponent(location.hash.slice(1));
  if (/^\d+$/.test(asked) && asked < total) select(Number(asked), true);
  else if (asked) { get("search").value = asked; search(asked); }
  document.body.dataset.ready = Math.round(performance.now());
});
