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
export function makeMinimap(picture) {
  const { box, page: { display } } = picture;
  let [page, layers, powers, now] = [null, [], [], 0];
  let [start, seen, all] = [0, 1, 1]; // pixels: where what is in sight begins, how much that is, and of how much
  const [bars, frame] = [s("g"), s("rect.sight", { y: 1, height: HIGH - 2 })];
  const slider = h("input", { type: "range", min: 0, max: 100, step: 2, "aria-label": "Map: the largest |gradient| at each depth", oninput: () => go(slider.value / 100) });
  const element = h("div.minimap", {}, s("svg", { width: "100%", height: HIGH, "aria-hidden": "true" }, bars, frame), slider);
  const right = display.direction === "right";
  const come = (nodes) => largest(nodes.filter((node) => node.step <= now));
  const go = (share) => box.scrollTo({ [right ? "left" : "top"]: share * (all - seen) });

  function bar(share, found) {
    const x = `${100 * share}%`;
    const mark = found.size === null ? MARKS.none : found.size === 0 ? MARKS.zero : Number.isFinite(found.size) ? "" : MARKS.large;
    if (mark) return s("text", { x, y: HIGH - 4, "text-anchor": "middle" }, mark);
    const [low, high] = [Math.min(...powers), Math.max(...powers)];
    const height = LEAST_BAR + (HIGH - 4 - LEAST_BAR) * ((Math.log10(found.size) - low) / (high - low || 1));
    return s("line", { x1: x, x2: x, y1: HIGH - 2, y2: HIGH - 2 - height });
  }

  /** Move the frame to what is in sight. Not at each step, because to ask the browser for places makes it lay out the page. */
  function sight() {
    [start, seen, all] = right ? [box.scrollLeft, box.clientWidth, box.scrollWidth] : [box.scrollTop, box.clientHeight, box.scrollHeight];
    element.hidden = all <= seen;
    if (element.hidden) return;
    slider.value = (100 * start) / Math.max(all - seen, 1);
    set(frame, { x: `${(100 * start) / all}%`, width: `${(100 * seen) / all}%` });
    tell();
  }

  /** Say what is in sight. */
  function tell() {
    const shown = [...layers.keys()].filter((k) => layers[k][0] * all >= start && layers[k][0] * all <= start + seen);
    if (!shown.length) return; // between two depths it is what it was
    const most = come(shown.flatMap((k) => layers[k][1]));
    const size = most && (most.size === null ? ", no gradient" : Number.isFinite(most.size) ? `, |gradient| up to ${most.words}` : ", |gradient| not finite");
    set(slider, { "aria-valuetext": `depths ${shown[0] + 1} to ${shown.at(-1) + 1} of ${layers.length} in sight${size ?? ""}` });
  }

  box.addEventListener("scroll", sight);
  return {
    element,
    sight,
    paint(step) {
      now = step;
      if (page !== picture.page) { // the numbers of another step of a training
        page = picture.page;
        layers = layersOf(page.display, page.search);
        powers = layers.flatMap(([, nodes]) => nodes.map(({ size }) => Math.log10(size))).filter(Number.isFinite);
        fill(bars, ...layers.map(() => s("g")));
      }
      layers.forEach(([share, nodes], k) => {
        const [group, found] = [bars.children[k], come(nodes)];
        if (group.cgvizNode === found) return;
        group.cgvizNode = found;
        fill(group, found && bar(share, found));
      });
      tell();
    },
  };
}
