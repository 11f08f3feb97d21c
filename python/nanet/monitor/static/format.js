// SPDX-License-Identifier: Apache-2.0
// Number formats, the same as in nanet's terminal tables.

export const count = (value) => Math.trunc(value).toLocaleString("en-US").replaceAll(",", "\u202f");

export function rate(value) {
  for (const [limit, name] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
    if (Math.abs(value) >= limit) return `${(value / limit).toFixed(2)} ${name}/s`;
  return `${value.toFixed(0)} /s`;
}

export const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.0995 ? 1 : 0)} %`;

export function microseconds(us) {
  if (us === null || us === undefined) return "–";
  if (us >= 1e6) return `${(us / 1e6).toFixed(2)} s`;
  if (us >= 1e4) return `${(us / 1e3).toFixed(1)} ms`;
  if (us >= 1e3) return `${(us / 1e3).toFixed(2)} ms`;
  return `${us.toFixed(1)} µs`;
}

export const shortTime = (msAgo) => new Date(Date.now() - msAgo).toLocaleTimeString();

// All losses of valid packets, and the other non-zero terms: [name, value, key in the JSON].
// names: losses of the core's counter list, from the feed.
export function losses(t, names) {
  const words = (name) => name.replaceAll("_", " ");
  const out = Object.entries(t.lost).map(([name, value]) => [`lost: ${words(name)}`, value, `lost.${name}`]);
  for (const [object, title] of [["bad_packets", "bad packet"], ["not_mgp", "not MGP"]])
    for (const [name, value] of Object.entries(t[object]))
      if (value) out.push([`${title}: ${words(name)}`, value, `${object}.${name}`]);
  for (const name of names)
    if (t[name]) out.push([words(name), t[name], name]);
  return out;
}

// Cleared context of a canvas at the screen's resolution: [context, width, height] in CSS pixels.
export function canvas(element) {
  const { clientWidth: width, clientHeight: height } = element;
  const ratio = devicePixelRatio || 1;
  if (element.width !== Math.round(width * ratio) || element.height !== Math.round(height * ratio)) {
    element.width = Math.round(width * ratio);
    element.height = Math.round(height * ratio);
  }
  const context = element.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return [context, width, height];
}

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Dark blue - teal - yellow, for light and dark backgrounds; t from 0 to 1.
const STOPS = [[68, 60, 160], [46, 120, 190], [32, 160, 145], [120, 190, 70], [240, 190, 30]];
export function heat(t) {
  const at = Math.max(0, Math.min(0.9999, t)) * (STOPS.length - 1);
  const i = Math.floor(at);
  const mixed = STOPS[i].map((from, k) => Math.round(from + (STOPS[i + 1][k] - from) * (at - i)));
  return `rgb(${mixed.join(",")})`;
}
