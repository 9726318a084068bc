// The camera: how large a picture is shown, and which part of it. Its `box` scrolls, also by touch; a point p is at k p in there.

const LABEL = 11.5; // points: the size of a label
const [LEAST, LARGE] = [11 / LABEL, 2]; // scales at which labels are of 11 pixels, which can be read; and twice as large as on paper
export const [LAST_ROW, SMALLEST] = [37, 24].map((pixels) => pixels / LABEL / 1920); // scales, of the width of a screen: to be read from the last row; and at all
const [GROWN, TALLEST] = [490, 620]; // pixels up to which a picture grows; and, if that is to be read, at most: a higher one is panned
const [FARTHEST, NEAREST] = [0.1, 6]; // scales: 1,000 nodes are seen as shapes; one label fills a phone
const SPARE = 32; // above and below a picture that runs right: an equation at its op
const [EDGE, STILL] = [24, 4]; // pixels from a border at which a node counts as seen; and that a pointer may move in a click
const TURN = 0.002; // of a pixel of the wheel, a notch of which is 100: each zooms by a fifth
const BURST = 500; // milliseconds: turns of the wheel that follow each other faster are one
const [BESIDE, NARROWEST] = [20, 200]; // pixels on each side of a picture, as in view.css: half of a chip; and to fit in at least: a box not laid out yet has none

/** The width of a stage, with its borders, in which a picture can be read. */
export const readable = ({ width }) => width * LEAST + 2 * BESIDE + 2;

/** The width and height of a picture, and its top, with the space for the equations of its op. */
export const extentOf = ({ direction, width, height }, spare = direction === "right" ? SPARE : 0) =>
  ({ width, height: height + 2 * spare, top: -spare });

/** At which scale all of a picture is in so many pixels; `most` is enough. */
const whole = ({ width, height }, wide, tall, most) => Math.min(wide / width, tall / height, most);

/** Of the display lists of a picture the one that is largest in this space: the first of those that are large enough. */
export function directed(displays, wide, tall = TALLEST, enough = LEAST) {
  const scales = displays.map((display) => whole(extentOf(display), wide, tall, enough));
  return displays[scales.indexOf(Math.max(...scales))];
}

/** Show pictures as large as there is space, if they can then be read, on a whole screen from afar; or `all` of them, however small. */
export function fit(pictures, presenting, all) {
  const found = pictures.map(({ box, page }) => [extentOf(page.display), Math.max(box.clientWidth - 2 * BESIDE, NARROWEST)]);
  pictures.forEach(({ box }, n) => {
    const k = all ? whole(...found[n], TALLEST, LARGE) : Math.max(whole(...found[n], GROWN, LARGE), LEAST);
    box.style.height = presenting ? "" : `${Math.min(found[n][0].height * k, TALLEST)}px`; // or more, as what is beside it
  });
  const [least, instead] = presenting ? [SMALLEST * innerWidth, LAST_ROW * innerWidth] : [LEAST, LEAST];
  pictures.forEach((picture, n) => {
    const { clientHeight } = picture.box;
    const k = whole(...found[n], clientHeight, presenting ? NEAREST : LARGE * Math.max(clientHeight / GROWN, 1));
    scale(picture, all || k >= least ? k : instead, true);
  });
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
export function reveal({ box, svg, k, page: { display } }, place) {
  if (!place) return;
  const [seen, { x, y }] = [box, svg].map((each) => each.getBoundingClientRect());
  const by = (at, length, from, to) => (at - length / 2 < from + EDGE || at + length / 2 > to - EDGE ? at - (from + to) / 2 : 0);
  box.scrollBy(by(x + place.x * k, place.width * k, seen.left, seen.right), by(y + (place.y - extentOf(display).top) * k, place.height * k, seen.top, seen.bottom));
}
