// SPDX-License-Identifier: Apache-2.0
// Event display: lattice of all disks in the common plane, hits coloured by time, fitted rings.
import { canvas, colour, heat } from "./format.js";

const KEPT = 200;
const EVERY_MS = 700; // interval of new events, unless paused
const RANGE_NS = 2;
const BITS = [[14, "valid"], [11, "saturated"], [10, "small"], [9, "multiplicity"], [8, "ambiguous"], [7, "incomplete"], [6, "poor fit"]];
const MARGIN = 15; // mm beyond the limits of the detector

export class EventDisplay {
  constructor(element, scale, $) {
    Object.assign(this, { element, scale, $, geometry: null });
    this.reset();
    $("pause").onclick = () => this.pause(!this.paused);
    $("step").onclick = () => this.step(1);
    $("back").onclick = () => this.step(-1);
    element.onclick = (click) => this.pick(click);
    document.addEventListener("keydown", (press) => this.key(press));
  }

  reset() {
    this.events = [];
    this.at = -1;
    this.paused = false;
    this.picked = this.waiting = null;
    this.changed = 0;
    this.dirty = true;
    this.pause(false);
  }

  add(event) {
    // While paused the list is kept; one event waits for a step beyond the newest.
    if (this.paused && this.events.length >= KEPT) {
      this.waiting = event;
      return;
    }
    this.keep(event);
    const now = performance.now();
    if (!this.paused && now - this.changed >= EVERY_MS) {
      this.changed = now;
      this.show(this.events.length - 1);
    }
  }

  keep(event) {
    this.events.push(event);
    if (this.events.length > KEPT) {
      this.events.shift();
      this.at = Math.max(0, this.at - 1);
    }
  }

  show(index) {
    if (index < 0 || index >= this.events.length) return;
    this.at = index;
    this.picked = null;
    this.dirty = true;
  }

  pause(paused) {
    this.paused = paused;
    if (!paused) this.waiting = null;
    this.$("pause").textContent = paused ? "continue" : "pause";
    this.$("pause").setAttribute("aria-pressed", String(paused));
  }

  step(by) {
    this.pause(true);
    if (by > 0 && this.waiting && this.at === this.events.length - 1) {
      this.keep(this.waiting);
      this.waiting = null;
    }
    this.show(Math.max(0, Math.min(this.events.length - 1, this.at + by)));
  }

  key(press) {
    const { target, key } = press;
    if (press.ctrlKey || press.altKey || press.metaKey || target.closest("button, a, summary, input")) return;
    const hits = this.events[this.at]?.pm.length ?? 0;
    const on = this.picked?.hit ?? -1;
    if (key === " ") this.pause(!this.paused);
    else if (key === "ArrowRight") this.step(1);
    else if (key === "ArrowLeft") this.step(-1);
    else if ((key === "ArrowDown" || key === "ArrowUp") && target === this.element && hits) {
      this.pause(true);
      this.picked = { hit: (on + (key === "ArrowDown" ? 1 : hits - (on < 0 ? 0 : 1))) % hits };
      this.dirty = true;
    } else return;
    press.preventDefault();
  }

  pick({ offsetX, offsetY }) {
    const event = this.events[this.at];
    if (!event || !this.geometry || !this.toScreen) return;
    let best = null;
    let near = 14;
    event.pm.forEach((pm, hit) => {
      const [x, y] = this.toScreen(this.geometry.common[pm]);
      const distance = Math.hypot(x - offsetX, y - offsetY);
      if (distance < near) [near, best] = [distance, { hit }];
    });
    if (!best)
      event.rings.forEach((ring, number) => {
        const [x, y] = this.toScreen([ring.x, ring.y]);
        const distance = Math.abs(Math.hypot(x - offsetX, y - offsetY) - ring.r * this.pixels);
        if (distance < near) [near, best] = [distance, { ring: number }];
      });
    this.picked = best;
    if (best) this.pause(true);
    this.dirty = true;
  }

  paint() {
    if (!this.dirty || !this.geometry) return;
    this.dirty = false;
    const [c, width, height] = canvas(this.element);
    const { common, pitch, x: [left_mm, right_mm], y: [bottom_mm, top_mm] } = this.geometry;
    const BOX = { left: left_mm - MARGIN, right: right_mm + MARGIN, bottom: bottom_mm - MARGIN / 2, top: top_mm + MARGIN / 2 };
    this.pixels = Math.min(width / (BOX.right - BOX.left), height / (BOX.top - BOX.bottom));
    const left = (width - this.pixels * (BOX.right - BOX.left)) / 2;
    const top = (height - this.pixels * (BOX.top - BOX.bottom)) / 2;
    this.toScreen = ([x, y]) => [left + (x - BOX.left) * this.pixels, top + (BOX.top - y) * this.pixels];
    const dot = (pm, size) => {
      c.beginPath();
      c.arc(...this.toScreen(common[pm]), size * pitch * this.pixels, 0, 2 * Math.PI);
    };
    c.strokeStyle = colour("--pm");
    c.lineWidth = 0.7;
    for (let pm = 0; pm < common.length; ++pm) { dot(pm, 0.42); c.stroke(); }
    this.paintScale();
    const event = this.events[this.at];
    if (!event) return;
    event.pm.forEach((pm, i) => {
      const late = event.late_ns[i];
      c.fillStyle = late === null ? colour("--muted") : heat((late + RANGE_NS) / (2 * RANGE_NS));
      dot(pm, 0.47);
      c.fill();
      if (this.picked?.hit === i) { c.strokeStyle = colour("--pick"); c.lineWidth = 3; dot(pm, 0.72); c.stroke(); }
    });
    event.rings.forEach((ring, i) => {
      c.strokeStyle = this.picked?.ring === i ? colour("--pick") : colour("--ring");
      c.lineWidth = i === 0 ? 2 : 1.4;
      c.setLineDash(i === 0 ? [] : [6, 4]);
      const [x, y] = this.toScreen([ring.x, ring.y]);
      c.beginPath();
      c.arc(x, y, ring.r * this.pixels, 0, 2 * Math.PI);
      c.stroke();
      c.setLineDash([]);
      c.beginPath();
      c.moveTo(x - 4, y); c.lineTo(x + 4, y); c.moveTo(x, y - 4); c.lineTo(x, y + 4);
      c.stroke();
    });
    this.say(event);
  }

  paintScale() {
    const [c, width, height] = canvas(this.scale);
    for (let x = 0; x < width; ++x) { c.fillStyle = heat(x / width); c.fillRect(x, 0, 1, height); }
  }

  say(event) {
    const bits = event.primitive ? BITS.filter(([bit]) => event.primitive >> bit & 1).map(([, name]) => name).join(", ") : "not sent";
    this.$("event-text").textContent = `Frame ${event.frame}, ${(event.time_ns / 1e6).toFixed(6)} ms after SOB: ` +
      `${event.pm.length} hits, ${event.rings.length} rings. Primitive ${event.primitive ? `0x${event.primitive.toString(16).padStart(4, "0")}` : ""} (${bits}).` +
      ` Shown ${this.at + 1} of ${this.events.length} kept.`;
    const cells = (values) => values.map((value) => { const td = document.createElement("td"); td.textContent = value; return td; });
    const row = (values) => { const tr = document.createElement("tr"); tr.append(...cells(values)); return tr; };
    this.$("event-rings").tBodies[0].replaceChildren(...event.rings.map((r, i) =>
      row([i, r.x.toFixed(1), r.y.toFixed(1), r.r.toFixed(1), r.hits, r.chi2_ndf.toFixed(2)])));
    this.$("event-rings").hidden = event.rings.length === 0;
    const body = this.$("picked").tBodies[0];
    if (this.picked?.hit !== undefined) {
      const pm = event.pm[this.picked.hit];
      const late = event.late_ns[this.picked.hit];
      const { common, disks, disk_of, boards } = this.geometry;
      const [x, y] = common[pm];
      const board = boards.findIndex((first) => first > pm) - 1;
      const off = event.rings.map((r) => Math.hypot(x - r.x, y - r.y) - r.r).sort((a, b) => Math.abs(a) - Math.abs(b))[0];
      body.replaceChildren(
        row(["photomultiplier", `${pm}, ${disks[disk_of[pm]]}, board ${board}`]),
        row(["x, y common plane", `${x.toFixed(1)}, ${y.toFixed(1)} mm`]),
        row(["time after the event", late === null ? "unknown" : `${late.toFixed(2)} ns`]),
        row(["distance to the nearest ring", off === undefined ? "no ring" : `${off.toFixed(1)} mm`]));
    } else if (this.picked?.ring !== undefined) {
      const r = event.rings[this.picked.ring];
      body.replaceChildren(row(["ring", `${this.picked.ring}`]), row(["centre", `${r.x.toFixed(2)}, ${r.y.toFixed(2)} mm`]),
        row(["radius", `${r.r.toFixed(2)} mm`]), row(["hits, χ²/ndf", `${r.hits}, ${r.chi2_ndf.toFixed(2)}`]));
    } else body.replaceChildren();
  }
}
