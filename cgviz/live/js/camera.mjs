// The camera: how large a picture is shown, and which part of it.
//
// A picture's `zoom` is { k, x, y }: a point p of it is seen at k p + (x, y).

const FONT_SCALE = { smallest: 0.5, least: 0.8, most: 1.5 }; // of letters of 11 points: unreadable, readable, large
const PANEL = 362; // pixels: the side panel with the gap before it
const TALLEST = 620; // pixels: a picture that is higher is panned, so that the bar stays in sight
const BELOW = 64; // under a picture that runs right: two equations, one below the other
const [LAST_ROW, LABEL] = [37, 11.5]; // pixels of a screen of 1920 that can be read from the last row; the size of a label
const LARGEST = 2.2; // the scale of "Full width": letters for the last row

/**
 * How pictures of these widths are arranged: beside each other or not, the side panel beside them or below.
 *
 * The first of these in which all of them are seen in letters that can be read.
 */
export function arrangement(widths, total) {
  const ways = [[total - PANEL, widths.length], [total, widths.length], [total - PANEL, 1], [total, 1]];
  const fits = ([space, columns]) =>
    (space === total || total >= 760) && widths.every((w) => w * FONT_SCALE.least <= space / columns - 12);
  const [space, columns] = ways.find(fits) ?? ways[3];
  return { below: space === total, columns };
}

/** Show a picture in a space of this width, so large that it can be read; `wide` over all of it. */
export function fit(picture, space, wide) {
  const { width } = picture.page.display;
  const height = heightOf(picture);
  const tallest = wide ? Infinity : TALLEST;
  let k = Math.min(space / width, FONT_SCALE.most);
  if (k < FONT_SCALE.smallest) k = FONT_SCALE.least; // what cannot be read when it is small is panned
  const whole = Math.min(k, tallest / height);
  k = whole >= 0.75 ? whole : Math.min(k, 1); // what is too tall is panned, and followed
  if (wide) k = Math.max(Math.min(space / width, LARGEST), 0.4);
  const tall = Math.min(height * k, tallest);
  picture.size = { width: space, height: tall };
  picture.svg.setAttribute("width", Math.round(space));
  picture.svg.setAttribute("height", Math.round(tall));
  picture.fitted = true;
  look(picture, { k, x: Math.max((space - width * k) / 2, 0), y: 0 });
}

/** The height of a picture with the space for the equations of its op. */
function heightOf({ page: { display: { direction, height } } }) {
  return height + (direction === "right" ? BELOW : 0);
}

/** Fill a screen, in letters that the last row can read; what does not fit is panned. */
export function fitScreen(picture, width, height) {
  const k = ((LAST_ROW / LABEL) * width) / 1920;
  const own = picture.page.display.width;
  picture.size = { width, height: height * 0.82 }; // the sentence is below
  picture.svg.setAttribute("width", Math.round(width));
  picture.svg.setAttribute("height", Math.round(picture.size.height));
  picture.fitted = true;
  const margin = (space, size) => Math.max((space - size * k) / 2, 0);
  look(picture, { k, x: margin(width, own), y: margin(picture.size.height, heightOf(picture)) });
}

/** All of a picture in sight, however small. */
export function showWhole(picture) {
  const { size, page: { display: { width } } } = picture;
  const height = heightOf(picture);
  const k = Math.min(size.width / width, size.height / height, LARGEST);
  look(picture, { k, x: (size.width - width * k) / 2, y: (size.height - height * k) / 2 });
}

/** Nearer or farther; the point `at` stays where it is. */
export function zoom(picture, factor, at = [picture.size.width / 2, picture.size.height / 2]) {
  const { k, x, y } = picture.zoom;
  const to = Math.min(Math.max(k * factor, 0.1), 6);
  picture.fitted = false;
  look(picture, { k: to, x: at[0] - ((at[0] - x) * to) / k, y: at[1] - ((at[1] - y) * to) / k });
}

/** Let the pointer drag a picture, and the wheel with Ctrl zoom it. */
export function pan(picture, on) {
  let from = null;
  let scrubs = false;
  on(picture.svg, "pointerdown", (event) => {
    if (event.button !== 0) return;
    scrubs = Boolean(event.target.closest("[role=slider]")); // it is dragged itself, and not the picture
    from = { x: event.clientX - picture.zoom.x, y: event.clientY - picture.zoom.y, px: event.clientX, py: event.clientY };
    picture.dragged = false;
  });
  let frame = 0;
  on(picture.svg, "pointermove", (event) => {
    if (!from) return;
    if (!picture.dragged && Math.hypot(event.clientX - from.px, event.clientY - from.py) < 4) return;
    if (!picture.dragged && !scrubs) picture.svg.setPointerCapture(event.pointerId);
    picture.dragged = true;
    if (scrubs) return;
    picture.fitted = false;
    picture.zoom = { ...picture.zoom, x: event.clientX - from.x, y: event.clientY - from.y };
    frame ||= requestAnimationFrame(() => {
      frame = 0;
      look(picture, picture.zoom);
    });
  });
  const end = () => (from = null);
  on(picture.svg, "pointerup", end);
  on(picture.svg, "pointercancel", end);
  on(picture.svg, "wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return; // plain scrolling is the page's
    event.preventDefault();
    const box = picture.svg.getBoundingClientRect();
    zoom(picture, Math.exp(-event.deltaY * 0.002), [event.clientX - box.x, event.clientY - box.y]);
  }, { passive: false });
}

/** Bring a box, such as a node, into sight if it is not. */
export function reveal(picture, box) {
  if (!box || !picture.size) return;
  const { size, zoom: { k, x, y }, page: { display: { width } } } = picture;
  const height = heightOf(picture);
  const left = (box.x - box.width / 2) * k + x;
  const top = (box.y - box.height / 2) * k + y;
  const edge = 24;
  const inside = left >= edge && top >= edge && left + box.width * k <= size.width - edge
    && top + box.height * k <= size.height - edge;
  if (inside || (width * k <= size.width && height * k <= size.height && picture.fitted)) return;
  const clamp = (v, space, all) => (all * k <= space ? (space - all * k) / 2 : Math.min(Math.max(v, space - all * k), 0));
  look(picture, {
    k,
    x: clamp(size.width / 2 - box.x * k, size.width, width),
    y: clamp(size.height / 2 - box.y * k, size.height, height),
  });
}

/** Show what was in sight before. */
export function restore(picture, { zoom, fitted }) {
  picture.fitted = fitted;
  look(picture, zoom);
}

function look(picture, { k, x, y }) {
  picture.zoom = { k, x, y };
  picture.inner.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)}) scale(${k.toFixed(4)})`);
}
