// SPDX-License-Identifier: Apache-2.0
// Monitor page: reads the feed, shows the numbers, and reports a lost connection.
import { count, losses, microseconds, percent, rate, shortTime } from "./format.js";
import { EventDisplay } from "./event.js";
import { drawCentres, drawLatency, drawOccupancy, RatePlot, BarPlot } from "./plots.js";

const $ = (id) => document.getElementById(id);
const STAGES = ["gather", "queue", "build", "reconstruct", "post", "send", "total"];
const LEVELS = ["p50", "p90", "p99", "p99_9", "p99_99", "max"];
const SILENT_MS = 3000;

const page = { state: null, physics: null, geometry: null, counters: null, received: 0, open: false, lost: false, dirty: new Set() };
const display = new EventDisplay($("display"), $("scale"), $);
const rates = new RatePlot($("rates"));
const ringCount = new BarPlot($("ringcount"), "rings", "events");
const radius = new BarPlot($("radius"), "mm", "rings");

function set(id, text, bad) {
  const at = $(id);
  if (at.textContent !== text) at.textContent = text;
  if (bad !== undefined) at.classList.toggle("bad", bad);
}

// Rows of text cells; existing elements are reused, against flicker and memory growth.
function rows(table, wanted) {
  const body = table.tBodies[0];
  while (body.rows.length > wanted.length) body.deleteRow(-1);
  wanted.forEach((cells, i) => {
    const row = body.rows[i] ?? body.insertRow();
    while (row.cells.length > cells.length) row.deleteCell(-1);
    cells.forEach((cell, j) => {
      const at = row.cells[j] ?? row.insertCell();
      const { text, bad = false, key = "" } = typeof cell === "object" ? cell : { text: cell };
      if (at.textContent !== text) at.textContent = text;
      at.className = bad ? "bad" : "";
      if (key) at.dataset.key = key;
      else delete at.dataset.key;
    });
  });
}

function showState() {
  const { trigger: t, rates: now } = page.state;
  if (!t.latency_us) return;
  const total = t.latency_us.total;
  set("rate", rate(now.events_built ?? 0));
  set("p50", total.n ? microseconds(total.p50) : "–");
  set("p999", total.n ? microseconds(total.p99_9) : "–", total.n > 0 && total.p99_9 > t.deadline_us);
  set("deadline", microseconds(t.deadline_us));
  set("late", count(t.frames_late), t.frames_late > 0);
  // As packets_lost() of nanet.report.output: packets that the kernel drops are among the missing.
  const { missing = 0, socket_overflow = 0, ring_overflow = 0, ...received } = t.lost;
  const lost = Object.values(received).reduce((a, b) => a + b, Math.max(missing, socket_overflow + ring_overflow));
  set("lost", count(lost), lost > 0);
  showRun(t);
  set("health", page.state.health);
  $("health").className = `pill ${!page.state.ok ? "bad" : page.state.degraded ? "fair" : "good"}`;
  rows($("counts"), page.counters.plain.map((key) => [key.replaceAll("_", " "), { text: count(t[key]), key }]));
  rows($("losses"), losses(t, page.counters.losses).map(([name, value, key]) => {
    const bad = value > 0 && !page.counters.harmless.includes(key);
    return [{ text: name, bad }, { text: count(value), bad, key }];
  }));
  rows($("boards"), page.state.boards.map((b) =>
    [`${b.board}`, { text: b.state, bad: b.state === "silent" }, count(b.hits), rate(b.hits_per_s)]));
  rows($("latency-table"), STAGES.filter((s) => t.latency_us[s].n).map((stage) => [stage,
    ...LEVELS.map((level) => ({ text: microseconds(t.latency_us[stage][level]), key: `${stage}.${level}`,
      bad: stage === "total" && t.latency_us.total[level] > t.deadline_us })),
    count(t.latency_us[stage].n)]));
  drawLatency($("latency"), t, STAGES);
}

// State of the run, with the words and numbers of the trigger's JSON.
function showRun(t) {
  const { choke, conditions, recorded, downscaled, final } = t;
  set("run", t.state);
  set("burst", t.burst === null ? "none" : `${t.burst}`);
  set("choke", choke.on ? "raised" : "off", choke.on);
  set("fill", percent(choke.fill));
  const wanted = [["state", { text: t.state, key: "state" }],
    ["latest burst", { text: t.burst === null ? "none" : `${t.burst}`, key: "burst" }],
    ["bursts started", { text: count(t.bursts), key: "bursts" }],
    ["choke", { text: choke.on ? "raised" : "off", bad: choke.on }],
    ["choke raised, times", { text: count(choke.raised), key: "choke.raised", bad: choke.raised > 0 }],
    ["choke raised, total", `${choke.seconds.toFixed(2)} s`],
    ["buffers in use, now and maximum", `${percent(choke.fill)}, ${percent(choke.fill_max)}`]];
  if (t.gpu_faults) {
    wanted.push(["GPU", { text: t.gpu_lost ? "lost, replaced by the CPU" : "recovered", bad: t.gpu_lost > 0 }],
      ["GPU faults", { text: count(t.gpu_faults), key: "gpu_faults", bad: true }],
      ["GPU recoveries", { text: count(t.gpu_recoveries), key: "gpu_recoveries" }],
      ["CPU fallback time", `${t.gpu_fallback_s.toFixed(2)} s`]);
  }
  if (final) {
    const { loop } = final;
    wanted.push(["final trigger: triggers", { text: count(final.triggers), key: "final.triggers" }],
      ["final trigger: kept", percent(final.primitives ? final.triggers / final.primitives : 0)],
      ["final trigger: joined, dead", `${count(final.joined)}, ${count(final.dead)}`]);
    if (final.card) {
      const refused = ["late", "early", "choked", "untimed", "flushed"].map((name) => final.card[name]);
      wanted.push(["card: late, early, choked, untimed, flushed",
        { text: refused.map(count).join(", "), key: "final.card", bad: refused.some((number) => number > 0) }]);
      for (const name of page.counters.card_faults)
        wanted.push([`card: ${name.replaceAll("_", " ")}`,
          { text: count(final.card[name]), key: `final.card.${name}`, bad: final.card[name] > 0 }]);
    }
    if (loop) {
      wanted.push(["latency L", microseconds(loop.latency_us)],
        ["slack, median and least", loop.slack_us.n ? `${microseconds(loop.slack_us.p50)}, ${microseconds(loop.slack_us.min)}` : "no trigger"],
        ["triggers late at a board", { text: count(loop.late), key: "final.late", bad: loop.late > 0 }],
        ["triggers answered by the boards", { text: loop.answered_share === null ? "no trigger" : `${(100 * loop.answered_share).toFixed(2)} %`, key: "final.answered" }],
        ["events complete at the farm", { text: count(loop.events_complete), key: "final.complete" }],
        ["events answered twice", { text: count(loop.events_twice), bad: loop.events_twice > 0 }]);
    }
  }
  if (conditions) {
    wanted.push(["conditions", { text: conditions.name, key: "conditions.name" }],
      ["photomultipliers masked", { text: count(conditions.masked), key: "conditions.masked" }],
      ["conditions changed, times", { text: count(conditions.changes), key: "conditions.changes" }],
      ["conditions refused, times", { text: count(conditions.refused ?? 0), key: "conditions.refused", bad: conditions.refused > 0 }],
      ["hits of masked photomultipliers", { text: count(t.masked_hits), key: "masked_hits" }]);
  } else wanted.push(["conditions", "none"]);
  for (const [kind, value] of Object.entries(downscaled))
    if (value) wanted.push([`downscaled: ${kind.replaceAll("_", " ")}`, { text: count(value), key: `downscaled.${kind}` }]);
  if (recorded) {
    for (const [name, title, bad] of [["packets", "packets recorded"], ["bad_packets", "bad packets recorded"], ["files", "files recorded"],
      ["ring_full", "not recorded: ring full", true], ["write_failed", "not recorded: write failed", true]])
      wanted.push([title, { text: count(recorded[name]), key: `recorded.${name}`, bad: Boolean(bad) && recorded[name] > 0 }]);
    if (recorded.trouble) wanted.push(["recording", { text: recorded.trouble, bad: true }]);
  }
  rows($("run-table"), wanted);
}

function showPhysics() {
  const p = page.physics;
  ringCount.draw(p.rings_per_event.map((_, i) => i), p.rings_per_event, 0.6);
  radius.draw(p.radius.map((_, i) => i + 0.5), p.radius, 1, 60, 200);
  drawCentres($("centres"), p.centre);
  if (page.geometry) drawOccupancy($("occupancy"), p.pm_occupancy, page.geometry, p.channels);
  const list = (ids) => (ids.length ? `${ids.length} (${ids.slice(0, 12).join(", ")}${ids.length > 12 ? ", …" : ""})` : "none");
  set("channels", `Sampled hits; dead: ${list(p.channels.dead)}; hot: ${list(p.channels.hot)}; masked: ${list(p.channels.masked)}.`,
    p.channels.dead.length + p.channels.hot.length > 0);
}

function showAbout(about) {
  set("what", `${about.listen} → trigger → ${about.send}`);
  set("hash", about.config_hash);
  set("command", about.command);
  set("config", about.config);
  set("version", about.version);
  const rows = (about.realtime_settings ?? []).map((one) => {
    const row = document.createElement("tr");
    for (const text of [one.name, one.state, one.remedy ? `${one.found}; ${one.remedy}` : one.found])
      row.appendChild(document.createElement("td")).textContent = text;
    return row;
  });
  $("realtime").replaceChildren(...rows);
}

// Painting follows the screen, not the feed: a hidden page is not painted.
function paint() {
  const dirty = page.dirty;
  if (dirty.delete("state")) showState();
  if (dirty.delete("physics")) showPhysics();
  if (dirty.delete("rates")) rates.draw();
  display.paint();
  requestAnimationFrame(paint);
}

function take(message) {
  page.received = performance.now();
  if (message.type === "hello") {
    page.counters = message.counters;
    showAbout(message.about);
    rates.reset(message.history);
    display.reset();
    page.lost = false;
    page.dirty.add("rates");
  } else if (message.type === "state") {
    page.state = message;
    if (message.point && rates.add(message.point)) page.dirty.add("rates");
    page.dirty.add("state");
  } else if (message.type === "physics") {
    page.physics = message;
    page.dirty.add("physics");
  } else if (message.type === "events") {
    message.events.forEach((event) => display.add(event));
  } else if (message.type === "lost") {
    page.lost = true;
  }
  judge();
}

function judge() {
  let text = "";
  const silent = performance.now() - page.received;
  if (page.state?.ended) text = "The trigger has ended. These are its last numbers.";
  else if (page.lost) text = "Lost the trigger: it ended without a final result. These are its last numbers.";
  else if (!page.open && page.received) text = `Lost the trigger at ${shortTime(silent)}: no connection. Retrying …`;
  else if (!page.open) text = "No trigger at this address. Retrying …";
  else if (silent > SILENT_MS) text = `No message from the trigger since ${shortTime(silent)}.`;
  $("banner").hidden = !text;
  set("banner", text);
  document.body.classList.toggle("stale", text !== "" && !page.state?.ended);
  if (text && !page.state?.ended) {
    set("health", "lost the trigger");
    $("health").className = "pill bad";
  }
}

function connect() {
  const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/feed`);
  socket.onopen = () => { page.open = true; page.received = performance.now(); };
  socket.onmessage = ({ data }) => take(JSON.parse(data));
  socket.onclose = () => {
    page.open = false;
    judge();
    setTimeout(connect, 1000);
  };
}

function repaint() {
  page.dirty.add("rates");
  if (page.state) page.dirty.add("state");
  if (page.physics) page.dirty.add("physics");
  display.dirty = true;
}

fetch("/geometry.json").then((answer) => answer.json()).then((geometry) => {
  page.geometry = geometry;
  display.geometry = geometry;
  repaint();
});
new ResizeObserver(repaint).observe(document.body);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { rates.restyle(); ringCount.restyle(); radius.restyle(); repaint(); });
setInterval(judge, 500);
window.nanet = { page, display }; // for tests and debugging
connect();
requestAnimationFrame(paint);
