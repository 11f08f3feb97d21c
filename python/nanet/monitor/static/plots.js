// SPDX-License-Identifier: Apache-2.0
// Curves and histograms with uPlot; latency percentiles and maps on canvases.
import uPlot from "./vendor/uPlot.esm.js";
import { canvas, colour, heat, microseconds } from "./format.js";

const KEPT = 1200;
const short = (value) => (value >= 1e6 ? `${+(value / 1e6).toPrecision(3)}M` : value >= 1e3 ? `${+(value / 1e3).toPrecision(3)}k` : `${+value.toPrecision(3)}`);
const axis = (more) => ({
  stroke: () => colour("--muted"), grid: { stroke: () => colour("--line"), width: 1 },
  ticks: { stroke: () => colour("--line"), width: 1 }, font: "12px system-ui, sans-serif", ...more,
});

// Resizes a uPlot with its container.
class Fitted {
  constructor(place) { this.place = place; this.plot = null; }
  size() { return { width: Math.max(120, this.place.clientWidth), height: this.place.classList.contains("short") ? 200 : 230 }; }
  fit() {
    const { width, height } = this.size();
    if (this.plot && (this.plot.width !== width || this.plot.height !== height)) this.plot.setSize({ width, height });
  }
  restyle() { this.plot?.redraw(false, true); }
}

export class RatePlot extends Fitted {
  constructor(place) { super(place); this.reset([]); }

  reset(history) {
    this.points = history.slice(-KEPT);
  }

  // One point [t, events/s, lost/s, late/s, burst]; false if it exists already.
  add(point) {
    if (this.points.length && point[0] <= this.points.at(-1)[0]) return false;
    this.points.push(point);
    if (this.points.length > KEPT) this.points.shift();
    return true;
  }

  draw() {
    const last = this.points.at(-1)?.[0] ?? 0;
    const data = [this.points.map((p) => p[0] - last), this.points.map((p) => p[1]), this.points.map((p) => p[2] + p[3])];
    this.bursts = this.points.filter((p, i) => i && p[4] > this.points[i - 1][4]).map((p) => p[0] - last);
    this.fit();
    if (this.plot) { this.plot.setData(data); return; }
    this.plot = new uPlot({
      ...this.size(), cursor: { y: false }, legend: { live: true },
      scales: { x: { time: false }, y: { range: (u, low, high) => [0, Math.max(1, (high ?? 0) * 1.1)] },
        bad: { range: (u, low, high) => [0, Math.max(1, (high ?? 0) * 3)] } },
      axes: [axis({ values: (u, ticks) => ticks.map((t) => `${t} s`) }), axis({ size: 58, values: (u, ticks) => ticks.map(short) }),
        axis({ scale: "bad", side: 1, size: 50, grid: { show: false }, values: (u, ticks) => ticks.map(short) })],
      series: [{ label: "time", value: (u, v) => (v === null ? "–" : `${v.toFixed(1)} s`) },
        { label: "events/s", stroke: () => colour("--s0"), width: 1.8, fill: () => `${colour("--s0")}22`, points: { show: false }, value: (u, v) => (v === null ? "–" : short(v)) },
        { label: "lost + late /s", scale: "bad", stroke: () => colour("--warn"), width: 1.5, points: { show: false }, value: (u, v) => (v === null ? "–" : short(v)) }],
      hooks: { draw: [(u) => this.drawBursts(u)] },
    }, data, this.place);
  }

  drawBursts(u) {
    const c = u.ctx;
    c.save();
    c.strokeStyle = colour("--muted");
    c.setLineDash([4, 4]);
    for (const t of this.bursts) {
      const x = u.valToPos(t, "x", true);
      c.beginPath(); c.moveTo(x, u.bbox.top); c.lineTo(x, u.bbox.top + u.bbox.height); c.stroke();
    }
    c.restore();
  }
}

export class BarPlot extends Fitted {
  constructor(place, label, what) { super(place); this.label = label; this.what = what; }

  draw(x, y, width, low = x[0] - 0.5, high = x.at(-1) + 0.5) {
    this.fit();
    const keep = x.map((v) => v >= low && v <= high);
    const data = [x.filter((_, i) => keep[i]), y.filter((_, i) => keep[i])];
    if (this.plot) { this.plot.setData(data); return; }
    const total = (u) => u.data[1].reduce((a, b) => a + b, 0) || 1;
    this.plot = new uPlot({
      ...this.size(), cursor: { y: false },
      scales: { x: { time: false, range: [low, high] }, y: { range: (u, a, b) => [0, Math.max(1, (b ?? 0) * 1.08)] } },
      axes: [axis({ space: 36 }), axis({ size: 54, values: (u, ticks) => ticks.map(short) })],
      series: [{ label: this.label },
        { label: this.what, stroke: () => colour("--s0"), fill: () => `${colour("--s0")}66`, width: 1, points: { show: false },
          paths: uPlot.paths.bars({ size: [width, 100] }),
          value: (u, v) => (v === null ? "–" : `${short(v)} (${(100 * v / total(u)).toFixed(1)} %)`) }],
    }, data, this.place);
  }
}

const MARKS = [["p50", 7], ["p90", 5], ["p99", 5], ["p99_9", 5], ["p99_99", 5]];

// One line per stage from the median to the maximum, on a logarithmic axis, with the deadline.
export function drawLatency(element, trigger, stages) {
  const [c, width, height] = canvas(element);
  const shown = stages.filter((stage) => trigger.latency_us[stage].n);
  const left = 84, right = 14, bottom = 24, top = 16;
  const values = shown.flatMap((stage) => [trigger.latency_us[stage].p50, trigger.latency_us[stage].max]);
  const low = Math.floor(Math.log10(Math.max(0.1, Math.min(1, ...values))));
  const high = Math.ceil(Math.log10(Math.max(trigger.deadline_us * 1.5, ...values)));
  const x = (us) => left + (width - left - right) * (Math.log10(Math.max(us, 10 ** low)) - low) / (high - low);
  c.font = "12px system-ui, sans-serif";
  c.textAlign = "center";
  for (let decade = low; decade <= high; ++decade) {
    c.fillStyle = colour("--line");
    c.fillRect(x(10 ** decade), top, 1, height - top - bottom);
    c.fillStyle = colour("--muted");
    const text = decade >= 6 ? `${10 ** (decade - 6)} s` : decade >= 3 ? `${10 ** (decade - 3)} ms` : `${10 ** decade} µs`;
    c.fillText(text, Math.min(Math.max(x(10 ** decade), left), width - 24), height - 6);
  }
  shown.forEach((stage, i) => {
    const of = trigger.latency_us[stage];
    const y = top + (i + 0.5) * (height - top - bottom) / shown.length;
    c.fillStyle = colour("--fg");
    c.textAlign = "right";
    c.fillText(stage, left - 10, y + 4);
    c.fillStyle = c.strokeStyle = colour(stage === "total" && of.max > trigger.deadline_us ? "--warn" : "--s0");
    c.lineWidth = 2;
    c.beginPath(); c.moveTo(x(of.p50), y); c.lineTo(x(of.max), y); c.stroke();
    for (const [level, size] of MARKS) { c.beginPath(); c.arc(x(of[level]), y, size / 2, 0, 2 * Math.PI); c.fill(); }
    c.fillRect(x(of.max) - 1, y - 5, 2, 10);
  });
  c.fillStyle = colour("--warn");
  c.fillRect(x(trigger.deadline_us) - 1, top - 2, 2, height - top - bottom + 2);
  c.textAlign = "right";
  c.fillText(`deadline ${microseconds(trigger.deadline_us)}`, Math.max(x(trigger.deadline_us) + 4, left + 110), 11);
}

// Bins of 12.5 mm from (-552, -400): trigger/account/physics.hpp.
export function drawCentres(element, centre) {
  const [c, width, height] = canvas(element);
  const most = Math.max(1, ...centre.map((line) => Math.max(...line)));
  const bins = centre.length, left = 40, bottom = 22;
  const side = Math.min((width - left - 6) / bins, (height - bottom - 6) / bins);
  centre.forEach((line, by) => line.forEach((n, bx) => {
    if (!n) return;
    c.fillStyle = heat(Math.sqrt(n / most));
    c.fillRect(left + bx * side, 4 + (bins - 1 - by) * side, side + 0.5, side + 0.5);
  }));
  c.strokeStyle = colour("--line");
  c.strokeRect(left, 4, bins * side, bins * side);
  c.fillStyle = colour("--muted");
  c.font = "12px system-ui, sans-serif";
  for (const mm of [-400, -200, 0, 200]) {
    c.textAlign = "center";
    c.fillText(`${mm}`, left + (mm + 552) / 12.5 * side, 4 + bins * side + 15);
    if (mm === -400) continue;
    c.textAlign = "right";
    c.fillText(`${mm}`, left - 5, 8 + (bins - (mm + 400) / 12.5) * side);
  }
}

// Disks side by side; dead PMs crossed out, hot ones ringed, masked ones struck through.
export function drawOccupancy(element, hits, { disk, disk_of, disks, pitch }, channels) {
  const [c, width, height] = canvas(element);
  const sorted = [...hits].sort((a, b) => a - b);
  const most = Math.max(1, sorted[Math.floor(0.995 * sorted.length)]);
  const dead = new Set(channels.dead), hot = new Set(channels.hot), masked = new Set(channels.masked);
  const range = (axis) => disk.reduce(([low, high], p) => [Math.min(low, p[axis]), Math.max(high, p[axis])], [Infinity, -Infinity]);
  const [left, right] = range(0), [bottom, top] = range(1), share = width / disks.length;
  const scale = Math.min(share / (right - left + 2 * pitch), (height - 6) / (top - bottom + 2 * pitch));
  for (let pm = 0; pm < hits.length; ++pm) {
    const x = share * (disk_of[pm] + 0.5) + (disk[pm][0] - (left + right) / 2) * scale;
    const y = height / 2 + 3 - (disk[pm][1] - (bottom + top) / 2) * scale;
    c.fillStyle = hits[pm] ? heat(hits[pm] / most) : colour("--pm");
    c.beginPath(); c.arc(x, y, 0.44 * pitch * scale, 0, 2 * Math.PI); c.fill();
    if (dead.has(pm) || hot.has(pm) || masked.has(pm)) {
      c.strokeStyle = colour(dead.has(pm) ? "--warn" : hot.has(pm) ? "--pick" : "--muted");
      c.lineWidth = 1.8;
      c.beginPath();
      if (dead.has(pm)) { c.moveTo(x - 4, y - 4); c.lineTo(x + 4, y + 4); c.moveTo(x + 4, y - 4); c.lineTo(x - 4, y + 4); }
      else if (masked.has(pm)) { c.moveTo(x - 5, y); c.lineTo(x + 5, y); }
      else c.arc(x, y, 0.67 * pitch * scale, 0, 2 * Math.PI);
      c.stroke();
    }
  }
  c.fillStyle = colour("--muted");
  c.font = "12px system-ui, sans-serif";
  disks.forEach((name, number) => c.fillText(name, share * number + 2, 12));
}
