// The camera: how large a picture is shown, and which part of it. Its `box` scrolls, also by touch; a point p is at k p in there.

const [LAST_ROW, LABEL] = [37, 11.5]; // pixels of a screen of 1920 that can be read from the last row; the size of a label
const [LEAST, LARGE] = [11 / LABEL, 1.5]; // scales at which labels are of 11 pixels, which can be read; and are large
const TALLEST = 620; // pixels: a picture that is higher is panned, so that the bar stays in sight
const ABOVE = 0.82; // of a screen: a picture above a sentence of two lines of 2 % of the width
const NARROWEST = 200; // pixels: in less, such as in a box that is not laid out yet, nothing is fitted
const [FARTHEST, NEAREST] = [0.1, 6]; // scales: 1,000 nodes are seen as shapes; one label fills a phone
const BELOW = 64; // under a picture that runs right: two equations, one below the other
const EDGE = 24; // pixels from a border at which a node counts as seen
const STILL = 4; // pixels that a pointer may move in a click
const TURN = 0.002; // of a pixel of the wheel, a notch of which is 100: each zooms by a fifth
const BURST = 500; // milliseconds: turns of the wheel that follow each other faster are one
const BESIDE = 20; // pixels on each side of a picture, as in view.css: half of a chip at its border

/** The width of a stage, with its borders, in which a picture can be read. */
export const readable = ({ width }) => width * LEAST + 2 * BESIDE + 2;

/** The width and height of a picture, with the space for the equations of its op. */
export const extentOf = ({ direction, width, height }) => ({ width, height: height + (direction === "right" ? BELOW : 0) });

/** Of the display lists of a picture the one that is largest in this width: the first of those in which labels can be read. */
export function directed(displays, space) {
  const scales = displays.map(extentOf).map(({ width, height }) => Math.min(space / width, TALLEST / height, LEAST));
  return displays[scales.indexOf(Math.max(...scales))];
}

/** Show a picture so large that it can be read, on a `screen` from the last row, above a sentence; or the `whole`, however small. */
export function fit(picture, screen, whole) {
  const { width, height } = extentOf(picture.page.display);
  const tallest = screen ? screen.height * ABOVE : TALLEST;
  const all = Math.min(Math.max(picture.box.clientWidth - 2 * BESIDE, NARROWEST) / width, tallest / height, LARGE);
  const k = whole ? all : screen ? ((LAST_ROW / LABEL) * screen.width) / 1920 : Math.max(all, LEAST);
  picture.box.style.height = `${screen ? tallest : Math.min(height * k, TALLEST)}px`;
  scale(picture, k, true);
}

/** Show it at a scale; `fitted` tells that nobody chose it, so that it may change with the width. */
export function scale(picture, k, fitted) {
  const { width, height } = extentOf(picture.page.display);
  Object.assign(picture, { k, fitted });
  Object.assign(picture.svg.style, { width: `${width * k}px`, height: `${height * k}px` });
  picture.map?.sight();
}

/** Nearer or farther; the point that is at (x, y) on the page stays there. */
export function zoom(picture, factor, x, y) {
  const { box, svg, k } = picture;
  const seen = box.getBoundingClientRect();
  const [cx, cy] = [x ?? seen.x + seen.width / 2, y ?? seen.y + seen.height / 2];
  const before = svg.getBoundingClientRect();
  scale(picture, Math.min(Math.max(k * factor, FARTHEST), NEAREST), false);
  const [after, grown] = [svg.getBoundingClientRect(), picture.k / k];
  box.scrollBy(after.x + (cx - before.x) * grown - cx, after.y + (cy - before.y) * grown - cy);
}

/** What lets the pointer drag a picture, or a number in it, and the wheel with Ctrl zoom it; `before` is called before a zoom. */
export function moving(picture, before) {
  let [from, turned] = [null, -Infinity];
  const release = () => (from = null);
  return {
    onpointerdown({ button, target, clientX, clientY }) {
      if (button) return;
      const { scrollLeft, scrollTop } = picture.box;
      from = { x: clientX, y: clientY, scrollLeft, scrollTop, slide: target.closest(".cgviz-node")?.cgvizItem?.grab?.() };
      picture.dragged = false;
    },
    onpointermove({ clientX, clientY, pointerId }) {
      if (!from) return;
      const [dx, dy] = [clientX - from.x, clientY - from.y];
      if (!picture.dragged && Math.hypot(dx, dy) < STILL) return;
      if (!picture.dragged) picture.svg.setPointerCapture(pointerId);
      picture.dragged = true;
      if (from.slide) from.slide(dx);
      else picture.box.scrollTo(from.scrollLeft - dx, from.scrollTop - dy);
    },
    onpointerup: release,
    onpointercancel: release,
    onwheel(event) {
      if (!event.ctrlKey && !event.metaKey) return; // plain scrolling is the page's
      event.preventDefault();
      if (event.timeStamp - turned > BURST) before();
      turned = event.timeStamp;
      zoom(picture, Math.exp(-event.deltaY * TURN), event.clientX, event.clientY);
    },
  };
}

/** Bring a place of a picture, such as a node, to its middle if it is not in sight. */
export function reveal({ box, svg, k }, place) {
  if (!place) return;
  const [seen, { x, y }] = [box, svg].map((each) => each.getBoundingClientRect());
  const by = (at, length, from, to) => (at - length / 2 < from + EDGE || at + length / 2 > to - EDGE ? at - (from + to) / 2 : 0);
  box.scrollBy(by(x + place.x * k, place.width * k, seen.left, seen.right), by(y + place.y * k, place.height * k, seen.top, seen.bottom));
}
