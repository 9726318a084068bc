// The minimap of a large picture: a strip with the largest |gradient| at each depth, and a frame around what is in sight.
import { fill, h, s, set } from "./dom.mjs";
import { typed } from "./numbers.mjs";

export const MANY = 30; // nodes: of fewer most are in sight
const [HIGH, LEAST_BAR] = [30, 4]; // pixels: the strip, and the bar of its smallest gradient
const MARKS = { none: "\u2205", zero: "\u25cb", large: "\u26a0" }; // as in the picture: no gradient; zero; not finite

/** The nodes at each depth, each with its |gradient| and the step at which that has come: [share of the way, nodes], in order. */
export function layersOf({ direction, nodes, links, width, height }, { rows, at }) {
  const [axis, all] = direction === "right" ? ["x", width] : ["y", height];
  const found = new Map();
  rows.forEach(([, what, words], k) => {
    if (what === "scope") return;
    const place = Number((nodes[at[k]][axis] / all).toFixed(3));
    const step = Math.max(...links.filter((link) => link.source === at[k]).map((link) => link.step));
    found.set(place, [...(found.get(place) ?? []), { step, words, size: words ? typed(words) : null }]);
  });
  return [...found].sort(([a], [b]) => a - b);
}

/** The largest of some nodes, of which that without a gradient is the smallest; undefined of none. */
export const largest = (nodes) => [...nodes].sort((a, b) => (b.size ?? -1) - (a.size ?? -1))[0];

/** The minimap of a picture. */
export function makeMinimap({ page: { display, search }, box }) {
  const layers = layersOf(display, search);
  const powers = layers.flatMap(([, nodes]) => nodes.map(({ size }) => Math.log10(size))).filter(Number.isFinite);
  const [low, high] = [Math.min(...powers), Math.max(...powers)];
  const [bars, frame] = [s("g"), s("rect.sight", { y: 1, height: HIGH - 2 })];
  const slider = h("input", { type: "range", min: 0, max: 100, step: 2, "aria-label": "Map: the largest |gradient| at each depth", oninput: () => go(slider.value / 100) });
  const element = h("div.minimap", {}, s("svg", { width: "100%", height: HIGH, "aria-hidden": "true" }, bars, frame), slider);
  const right = display.direction === "right";
  const place = () => (right ? [box.scrollLeft, box.clientWidth, box.scrollWidth] : [box.scrollTop, box.clientHeight, box.scrollHeight]);
  let now = 0;

  function go(share) {
    const [, seen, all] = place();
    box.scrollTo({ [right ? "left" : "top"]: share * (all - seen) });
  }

  function bar([share, nodes]) {
    const found = largest(nodes.filter((node) => node.step <= now));
    if (!found) return null;
    const x = `${100 * share}%`;
    const sign = found.size === null ? MARKS.none : found.size === 0 ? MARKS.zero : Number.isFinite(found.size) ? "" : MARKS.large;
    if (sign) return s("text", { x, y: HIGH - 4, "text-anchor": "middle" }, sign);
    const height = LEAST_BAR + (HIGH - 4 - LEAST_BAR) * ((Math.log10(found.size) - low) / (high - low || 1));
    return s("line", { x1: x, x2: x, y1: HIGH - 2, y2: HIGH - 2 - height });
  }

  /** Move the frame to what is in sight, and say what that is. */
  function sight() {
    const [start, seen, all] = place();
    element.hidden = all <= seen;
    slider.value = (100 * start) / Math.max(all - seen, 1);
    set(frame, { x: `${(100 * start) / all}%`, width: `${(100 * seen) / all}%` });
    const shown = [...layers.entries()].filter(([, [share]]) => share * all >= start && share * all <= start + seen);
    const most = largest(shown.flatMap(([, [, nodes]]) => nodes).filter((node) => node.step <= now));
    const depths = shown.length ? `depths ${shown[0][0] + 1} to ${shown.at(-1)[0] + 1} of ${layers.length} in sight` : "";
    set(slider, { "aria-valuetext": `${depths}${most ? `, ${most.words ? `|gradient| up to ${most.words}` : "no gradient"}` : ""}` });
  }

  box.addEventListener("scroll", sight);
  return {
    element,
    sight,
    paint(step) {
      now = step;
      fill(bars, ...layers.map(bar));
      sight();
    },
  };
}
