// The minimap of a large picture: a strip with the largest |gradient| at each depth, and a frame around what is seen.
import { fill, h, s, set } from "./dom.mjs";

const [HIGH, LEAST_BAR] = [30, 4]; // pixels: the height of the strip, and of the bar of the smallest gradient

/** The minimap of a picture; Python computed the height of each node's bar, by the power of ten of its gradient. */
export function makeMinimap(picture) {
  const { box, page: { display: { direction, width, height, nodes }, norms } } = picture;
  const right = direction === "right";
  const places = nodes.map(({ x, y }) => Number((right ? x / width : y / height).toFixed(3)));
  const depths = [...new Set(places.filter((_, i) => norms[i]))].sort((a, b) => a - b);
  // Of the box, in pixels: where the part in sight begins, its length, and the length of the whole.
  const sizes = right ? ["scrollLeft", "clientWidth", "scrollWidth"] : ["scrollTop", "clientHeight", "scrollHeight"];
  const [start, seen, all] = sizes;
  let [shown, largest] = [[], new Map()]; // the depths in sight; per depth, the largest gradient that has come
  const [bars, frame] = [s("g"), s("rect.sight", { y: 1, height: HIGH - 2 })];
  const slider = h("input", {
    type: "range", min: 0, max: 100, step: 2, "aria-label": "Map: the largest |gradient| at each depth",
    oninput: () => (box[start] = (slider.value / 100) * (box[all] - box[seen])),
    onkeydown: sight, onpointerdown: sight, // which the browser may not have told of a scroll yet
  });
  const strip = s("svg", { width: "100%", height: HIGH, "aria-hidden": "true" }, bars, frame);
  const element = h("div.minimap", {}, strip, slider);

  function bar([share, [high, , sign]]) {
    const x = `${100 * share}%`;
    if (sign) return s("text", { x, y: HIGH - 4, "text-anchor": "middle" }, sign);
    return s("line", { x1: x, x2: x, y1: HIGH - 2, y2: HIGH - 2 - LEAST_BAR - (HIGH - 4 - LEAST_BAR) * high });
  }

  /** Move the frame to what is in sight. Not at each step: asking the browser for places makes it lay out the page. */
  function sight() {
    const [from, length, whole] = sizes.map((name) => box[name]);
    element.hidden = whole <= length;
    if (element.hidden) return;
    slider.value = (100 * from) / (whole - length);
    set(frame, { x: `${(100 * from) / whole}%`, width: `${(100 * length) / whole}%` });
    shown = [...depths.keys()].filter((k) => depths[k] * whole >= from && depths[k] * whole <= from + length);
    tell();
  }

  function tell() {
    if (!shown.length) return;
    const come = shown.map((k) => largest.get(depths[k])).filter((norm) => norm);
    const [most] = come.sort(([a], [b]) => b - a);
    const words = `depths ${shown[0] + 1} to ${shown.at(-1) + 1} of ${depths.length} in sight`;
    set(slider, { "aria-valuetext": `${words}, ${most?.[1] ?? "no gradient yet"}` });
  }

  function paint(step) {
    largest = new Map();
    picture.page.norms.forEach((norm, i) => {
      const come = norm && picture.page.panels[i].come <= step;
      if (come && !(largest.get(places[i])?.[0] >= norm[0])) largest.set(places[i], norm);
    });
    fill(bars, ...[...largest].map(bar));
    tell();
  }

  box.addEventListener("scroll", sight);
  return { element, sight, paint };
}
