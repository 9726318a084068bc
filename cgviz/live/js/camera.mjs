// The camera: how large a picture is shown, and which part of it. Its `box` scrolls; in it, a point p is at k p.

const LABEL = 11.5; // points: the size of a label
const [LEAST, LARGE] = [11 / LABEL, 2]; // scales: labels are 11 pixels high and can be read; twice as large as on paper
// Scales per pixel of screen width: labels can be read from the last row; they can be read at all.
export const [LAST_ROW, SMALLEST] = [37, 24].map((pixels) => pixels / LABEL / 1920);
const GROWN = 490; // pixels: the height up to which a picture grows
const TALLEST = 620; // pixels: the most height that it gets in order to be read; a higher one is panned
const [FARTHEST, NEAREST] = [0.1, 6]; // scales: 1,000 nodes are seen as shapes; one label fills a phone
const SPARE = 32; // points above and below a picture that runs right, for an equation at its op
const EDGE = 24; // pixels inside the border from which on a node counts as seen
const STILL = 4; // pixels that a pointer may move in a click
const TURN = 0.002; // zoom per pixel of the wheel: a notch is 100 pixels, so it zooms by a fifth
const BURST = 500; // milliseconds: turns of the wheel that follow each other faster count as one zoom
const BESIDE = 20; // pixels on each side of a picture, as in view.css, for half of a chip
const NARROWEST = 200; // pixels: the least width to fit into, as a box that is not laid out yet has none

/** The least width of a stage, with its borders, in which a picture can be read. */
export const readable = ({ width }) => width * LEAST + 2 * BESIDE + 2;

/** The width, height and top of a picture, with the space for equations above and below it. */
export const extentOf = ({ direction, width, height }, spare = direction === "right" ? SPARE : 0) =>
  ({ width, height: height + 2 * spare, top: -spare });

/** The scale, at most `most`, at which all of a picture fits into `wide` by `tall` pixels. */
const whole = ({ width, height }, wide, tall, most) => Math.min(wide / width, tall / height, most);

/** The first of a picture's display lists that is large enough in this space, or else the one that is largest in it. */
export function directed(displays, wide, tall = TALLEST, enough = LEAST) {
  const scales = displays.map((display) => whole(extentOf(display), wide, tall, enough));
  return displays[scales.indexOf(Math.max(...scales))];
}

/** Show each picture whole, as large as there is space, but not too small to be read, unless `all` is to be seen. */
export function fit(pictures, presenting, all) {
  const within = ({ box, page }, tall, most) =>
    whole(extentOf(page.display), Math.max(box.clientWidth - 2 * BESIDE, NARROWEST), tall, most);
  for (const picture of pictures) {
    const k = all ? within(picture, TALLEST, LARGE) : Math.max(within(picture, GROWN, LARGE), LEAST);
    const height = Math.min(extentOf(picture.page.display).height * k, TALLEST); // or more, if a neighbour is higher
    picture.box.style.height = presenting ? "" : `${height}px`;
  }
  const [least, instead] = presenting ? [SMALLEST * innerWidth, LAST_ROW * innerWidth] : [LEAST, LEAST];
  for (const picture of pictures) {
    const { clientHeight } = picture.box;
    const k = within(picture, clientHeight, presenting ? NEAREST : LARGE * Math.max(clientHeight / GROWN, 1));
    scale(picture, all || k >= least ? k : instead, true);
  }
}

/** Show a picture at scale k; `fitted` tells that nobody chose it, so that it may change with the width. */
export function scale(picture, k, fitted) {
  const { width, height } = extentOf(picture.page.display);
  Object.assign(picture, { k, fitted });
  Object.assign(picture.svg.style, { width: `${width * k}px`, height: `${height * k}px` });
  picture.map?.sight();
}

/** Zoom in or out; the point of the picture that is at (x, y) on the page stays there. */
export function zoom(picture, factor, x, y) {
  const { box, svg, k } = picture;
  const seen = box.getBoundingClientRect();
  const [cx, cy] = [x ?? seen.x + seen.width / 2, y ?? seen.y + seen.height / 2];
  const before = svg.getBoundingClientRect();
  scale(picture, Math.min(Math.max(k * factor, FARTHEST), NEAREST), false);
  const [after, grown] = [svg.getBoundingClientRect(), picture.k / k];
  box.scrollBy(after.x + (cx - before.x) * grown - cx, after.y + (cy - before.y) * grown - cy);
}

/** Listeners: the pointer drags a picture, or a number in it, or moves `over` it; the wheel with Ctrl zooms it. */
export function moving(picture, before, over) {
  let [from, turned] = [null, -Infinity];
  const release = () => (from = null);
  return {
    onpointerdown({ button, target, clientX, clientY }) {
      if (button) return;
      const { scrollLeft, scrollTop } = picture.box;
      from = { x: clientX, y: clientY, scrollLeft, scrollTop };
      from.slide = target.closest(".cgviz-node")?.cgvizItem?.grab?.();
      picture.dragged = false;
    },
    onpointermove({ clientX, clientY, pointerId, target }) {
      if (!from) return over(target); // not where the picture scrolls under a pointer at rest
      const [dx, dy] = [clientX - from.x, clientY - from.y];
      if (!picture.dragged && Math.hypot(dx, dy) < STILL) return;
      if (!picture.dragged) picture.svg.setPointerCapture(pointerId);
      picture.dragged = true;
      if (from.slide) from.slide(dx);
      else picture.box.scrollTo(from.scrollLeft - dx, from.scrollTop - dy);
    },
    onpointerup: release, onpointercancel: release,
    onwheel(event) {
      if (!event.ctrlKey && !event.metaKey) return; // plain scrolling scrolls the page
      event.preventDefault();
      if (event.timeStamp - turned > BURST) before();
      turned = event.timeStamp;
      zoom(picture, Math.exp(-event.deltaY * TURN), event.clientX, event.clientY);
    },
  };
}

/** What is seen of a picture's box: between the window's upper border and the sentence, unless that is little of it. */
function sightOf({ box }) {
  const own = box.getBoundingClientRect();
  const status = box.closest(".cgviz-view").querySelector(".cgviz-status").getBoundingClientRect();
  const [y, bottom] = [Math.max(own.y, 0), Math.min(own.bottom, status.y)];
  return bottom - y > own.height / 2 ? { x: own.x, y, width: own.width, height: bottom - y } : own;
}

/** The box of an element in the points of its picture: its middle, and its size. */
export function boxOf({ inner }, element, { x, y, width, height } = element.getBoundingClientRect()) {
  const { a: k, e, f } = inner.getScreenCTM();
  return { x: (x + width / 2 - e) / k, y: (y + height / 2 - f) / k, width: width / k, height: height / k };
}

/** Scroll the first of these places, and the others for which there is space, to the middle of the box if not seen. */
export function reveal(picture, ...places) {
  const edge = EDGE / picture.k;
  const ends = ({ x, y, width, height }) => [[x - width / 2, x + width / 2], [y - height / 2, y + height / 2]];
  const seen = ends(boxOf(picture, picture.box, sightOf(picture)));
  const wanted = places.filter((place) => place).map(ends);
  const all = wanted.reduce((found, each) => {
    const both = found.map(([from, to], n) => [Math.min(from, each[n][0]), Math.max(to, each[n][1])]);
    return both.every(([from, to], n) => to - from + edge < seen[n][1] - seen[n][0]) ? both : found;
  }, wanted[0]);
  if (all) picture.box.scrollBy(...all.map(([from, to], n) => {
    const [low, high] = seen[n];
    return from < low + edge || to > high - edge ? ((from + to - low - high) / 2) * picture.k : 0;
  }));
}
