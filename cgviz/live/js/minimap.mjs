// The minimap of a large picture: a strip with the largest |gradient| at each depth, and a frame around what is in sight.
import { fill, h, s, set } from "./dom.mjs";
import { typed } from "./predict.mjs";

export const MANY = 30; // nodes: of fewer most are in sight
const [HIGH, LEAST_BAR] = [30, 4]; // pixels: the strip, and the bar of its smallest gradient

/** The nodes at each depth, each with its |gradient| and the step at which that has come: [share of the way, nodes, the largest first]. */
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

/** What stands for a |gradient| without a bar, as in the picture: of none, of zero, and of one that is not finite. */
const markOf = (size) => (size === null ? "\u2205" : size === 0 ? "\u25cb" : Number.isFinite(size) ? "" : "\u26a0");

/** The minimap of a picture. */
export function makeMinimap(picture) {
  const { box, page: { display } } = picture;
  const right = display.direction === "right";
  let [page, layers, shown, now] = [null, [], [], 0]; // `shown`: the depths in sight
  let [low, high] = [0, 0]; // of the powers of ten
  const [bars, frame] = [s("g"), s("rect.sight", { y: 1, height: HIGH - 2 })];
  const slider = h("input", {
    type: "range", min: 0, max: 100, step: 2, "aria-label": "Map: the largest |gradient| at each depth",
    oninput() {
      const [, seen, all] = sizes();
      box.scrollTo({ [right ? "left" : "top"]: (slider.value / 100) * (all - seen) });
    },
  });
  const element = h("div.minimap", {}, s("svg", { width: "100%", height: HIGH, "aria-hidden": "true" }, bars, frame), slider);

  /** Where what is in sight begins, how much that is, and of how much, in pixels. */
  const sizes = () => (right ? [box.scrollLeft, box.clientWidth, box.scrollWidth] : [box.scrollTop, box.clientHeight, box.scrollHeight]);

  const come = (nodes) => nodes.find(({ step }) => step <= now);

  /** The bar of some nodes at a depth, as high as the largest |gradient| that has come, by its power of ten. */
  function bar(share, nodes) {
    const found = come(nodes);
    const x = `${100 * share}%`;
    if (!found) return null;
    if (markOf(found.size)) return s("text", { x, y: HIGH - 4, "text-anchor": "middle" }, markOf(found.size));
    const height = LEAST_BAR + (HIGH - 4 - LEAST_BAR) * ((Math.log10(found.size) - low) / (high - low || 1));
    return s("line", { x1: x, x2: x, y1: HIGH - 2, y2: HIGH - 2 - height });
  }

  /** Move the frame to what is in sight. Not at each step, because to ask the browser for places makes it lay out the page. */
  function sight() {
    const [start, seen, all] = sizes();
    element.hidden = all <= seen;
    if (element.hidden) return;
    slider.value = (100 * start) / Math.max(all - seen, 1);
    set(frame, { x: `${(100 * start) / all}%`, width: `${(100 * seen) / all}%` });
    shown = [...layers.keys()].filter((k) => layers[k][0] * all >= start && layers[k][0] * all <= start + seen);
    tell();
  }

  /** Say what is in sight. */
  function tell() {
    if (!shown.length) return;
    const [most] = shown.flatMap((k) => come(layers[k][1]) ?? []).sort((a, b) => (b.size ?? -1) - (a.size ?? -1));
    const size = !most ? "no gradient yet" : most.size === null ? "no gradient" : `|gradient| up to ${most.words}`;
    set(slider, { "aria-valuetext": `depths ${shown[0] + 1} to ${shown.at(-1) + 1} of ${layers.length} in sight, ${size}` });
  }

  box.addEventListener("scroll", sight);
  return {
    element,
    sight,
    paint(step) {
      if (page !== picture.page) { // the numbers of another step of a training
        page = picture.page;
        layers = layersOf(page.display, page.search);
        const powers = layers.flatMap(([, nodes]) => nodes.map(({ size }) => Math.log10(size))).filter(Number.isFinite);
        [low, high] = [Math.min(...powers), Math.max(...powers)];
      }
      now = step;
      fill(bars, ...layers.map(([share, nodes]) => bar(share, nodes)));
      tell();
    },
  };
}
