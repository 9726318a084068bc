// What can be copied: the picture as SVG or PNG, the chain rule as LaTeX, a link to this moment.
import { h, pixel, set, toggle } from "./dom.mjs";

const SCALE = 2; // of a PNG: sharp on a slide
const STROKE = ["stroke-width", "stroke-dasharray", "stroke-linecap", "opacity"];
const LOOKS = [...STROKE, "font-family", "font-size", "font-weight", "text-anchor", "dominant-baseline"];
const UNSEEN = ".cgviz-hit, .cgviz-handle, .cgviz-tab, .cgviz-layer"; // what is only for the pointer, and what flies

/** A picture as it is drawn now, as a self-contained file in light colours: each element carries its own looks. */
function asSvg(root, { svg, page: { display: { width, height } } }) {
  toggle(root, "light", true);
  const copy = svg.cloneNode(true);
  const [drawn, own] = [svg, copy].map((each) => [...each.querySelectorAll("*")]);
  drawn.forEach((each, i) => {
    const style = getComputedStyle(each);
    if (style.display === "none" || style.visibility === "hidden" || each.matches(UNSEEN)) return own[i].remove();
    const page = own[i].getAttributeNames().filter((name) => /^(class|style|role|tabindex|aria-|data-)/.test(name));
    for (const name of page) own[i].removeAttribute(name);
    for (const name of LOOKS) own[i].setAttribute(name, style.getPropertyValue(name));
    if (each.style.transform) own[i].setAttribute("transform", style.transform);
    for (const name of ["fill", "stroke"]) {
      const [red, green, blue, opaque] = style[name] === "none" ? [0, 0, 0, 0] : pixel(style[name]);
      own[i].setAttribute(name, opaque ? `rgb(${red}, ${green}, ${blue})` : "none");
      own[i].setAttribute(`${name}-opacity`, (opaque / 255).toFixed(2));
    }
  });
  toggle(root, "light", false);
  for (const name of copy.getAttributeNames()) copy.removeAttribute(name);
  set(copy, { width, height, viewBox: `0 0 ${width} ${height}` });
  return new XMLSerializer().serializeToString(copy);
}

async function asPng(text) {
  const image = Object.assign(new Image(), { src: `data:image/svg+xml,${encodeURIComponent(text)}` });
  await image.decode();
  const canvas = new OffscreenCanvas(image.width * SCALE, image.height * SCALE);
  const context = Object.assign(canvas.getContext("2d"), { fillStyle: "white" });
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas.convertToBlob();
}

/** Copy a view as SVG, PNG, LaTeX or Link, or save it as a file where that is not allowed. Returns what to say. */
export async function take(view, kind) {
  const svg = asSvg(view.root, view.picture);
  const link = `${location.href.split("#")[0]}#step=${view.state.step}`;
  const texts = { SVG: svg, LaTeX: view.doc.latex?.[view.cache.which], Link: link };
  const blob = kind === "PNG" ? await asPng(svg) : new Blob([texts[kind]], { type: "text/plain" });
  try {
    await navigator.clipboard.write([new ClipboardItem({ [blob.type]: blob })]);
    return `${kind} copied.`;
  } catch {
    const download = `gradient.${kind === "LaTeX" ? "tex" : kind.toLowerCase()}`;
    h("a", { href: URL.createObjectURL(blob), download }).click();
    return `${kind} saved as a file: this page may not use the clipboard.`;
  }
}
