// SPDX-License-Identifier: Apache-2.0
// Page of `nanet torus demo`: load of every link, counters of the program.
import { canvas, colour, count, heat } from "./format.js";

const $ = (id) => document.getElementById(id);
let size = [1, 1, 1], state = null;

function set(id, text, bad = false) {
  $(id).textContent = text;
  $(id).classList.toggle("bad", bad);
}

function draw() {
  const [nx, ny, nz] = size, { links, load_max: most, bad, errors_on: failing } = state.torus;
  const element = $("links");
  const across = Math.min(nz, Math.max(1, Math.floor(element.clientWidth / (28 * nx + 30))));
  const step = Math.min(60, (element.clientWidth / across - 30) / nx);
  const plane = ny * step + 34;
  element.style.height = `${Math.ceil(nz / across) * plane}px`;
  const [g] = canvas(element);
  if (!links.length) {
    g.fillStyle = colour("--muted");
    g.fillText("The lattice is too large for a picture.", 10, 20);
    return;
  }
  const load = (node, port) => links[node * 6 + port] / (most || 1);
  const line = (x0, y0, x1, y1, share, crossed) => {
    g.strokeStyle = crossed ? colour("--warn") : share > 0 ? heat(share) : colour("--line");
    g.lineWidth = crossed ? 5 : 2 + 3 * share;
    g.beginPath();
    g.moveTo(x0, y0);
    g.lineTo(x1, y1);
    g.stroke();
    if (crossed) {
      const x = (x0 + x1) / 2, y = (y0 + y1) / 2;
      for (const way of [1, -1]) {
        g.beginPath();
        g.moveTo(x - 7, y - 7 * way);
        g.lineTo(x + 7, y + 7 * way);
        g.stroke();
      }
    }
  };
  for (let z = 0; z < nz; ++z) {
    const left = (z % across) * (nx * step + 30) + 14, top = Math.floor(z / across) * plane + 26;
    g.fillStyle = colour("--muted");
    g.fillText(`z = ${z}`, left - 4, top - 12);
    const at = (x, y) => x + nx * (y + ny * z);
    for (let y = 0; y < ny; ++y)
      for (let x = 0; x < nx; ++x) {
        const node = at(x, y), px = left + x * step, py = top + y * step;
        if (nx > 1) line(px + 6, py, px + step - 6, py, Math.max(load(node, 0), load(at((x + 1) % nx, y), 3)), failing && bad[0] === node && bad[1] === 0);
        if (ny > 1) line(px, py + 6, px, py + step - 6, Math.max(load(node, 1), load(at(x, (y + 1) % ny), 4)), failing && bad[0] === node && bad[1] === 1);
        g.fillStyle = heat(Math.max(load(node, 2), load(node, 5)));
        g.beginPath();
        g.arc(px, py, 5, 0, 7);
        g.fill();
      }
  }
}

function show() {
  const t = state.torus;
  if (!t.program) return;
  set("iterations", count(t.program.iterations));
  set("wanted", count(t.iterations));
  set("packets", count(t.program.packets));
  set("busiest", t.load_max.toFixed(3));
  set("mean", t.mean_cycles.toFixed(0));
  set("damaged", count(t.program.cells_damaged), t.program.cells_damaged > 0);
  set("resent", count(t.program.cells_resent));
  set("errors", t.errors_on ? `${"XYZ"[t.bad[1]]}+ of node ${t.bad[0]}` : "none", t.errors_on);
  set("health", state.health);
  $("health").className = `pill ${state.ended ? "" : !state.ok ? "bad" : state.degraded ? "fair" : "good"}`;
  draw();
}

function connect() {
  const socket = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/feed`);
  socket.onmessage = ({ data }) => {
    const message = JSON.parse(data);
    if (message.type === "hello") {
      size = message.about.size;
      set("what", size.join(" × "));
    } else if (message.type === "state") {
      state = message;
      show();
    } else if (message.type === "lost") set("health", "the program has gone away", true);
  };
  socket.onclose = () => setTimeout(connect, 2000);
}
connect();
addEventListener("resize", () => state && show());
