// Large pictures: find an op, a variable or a scope; and which of repeats, such as the steps of a recurrent network, is shown.
import { fill, h, makeSlider, say, set, use } from "./dom.mjs";

/** The rows of a search that have all the words, the largest gradient first: their places in `rows`. */
export function matching(rows, words) {
  const wanted = words.toLowerCase().split(/\s+/);
  return [...rows.keys()].filter((k) => wanted.every((word) => rows[k].slice(0, 2).join(" ").toLowerCase().includes(word)));
}

/** A field that finds what is in the picture of a view, also in closed scopes. */
export function makeSearch(view) {
  let before = null; // what had the focus
  const field = h("input", { type: "text", "aria-label": "Find an op, a variable or a scope", autocomplete: "off", placeholder: "op, variable, scope", oninput: () => find() });
  const list = h("select", { size: 10, "aria-label": "Found, the largest gradient first", onclick: () => pick() });
  const count = h("p.count", { role: "status" });
  const leave = () => {
    show(false);
    before?.focus({ preventScroll: true });
  };
  const keys = { ArrowDown: () => choose(list.selectedIndex + 1), ArrowUp: () => choose(list.selectedIndex - 1), Enter: () => pick(), Escape: leave };
  const element = h("div.search", { hidden: true, onkeydown: (event) => use(event, keys[event.key]),
    onfocusout: ({ relatedTarget }) => element.contains(relatedTarget) || show(false) }, field, count, list);

  function show(on) {
    element.hidden = !on;
    if (!on) return;
    before = view.focused;
    field.value = "";
    find();
    field.focus();
  }

  function find() {
    const { rows } = view.page.search;
    fill(list, ...matching(rows, field.value).map((k) => {
      const [name, what, gradient] = rows[k];
      return h("option", { value: k }, `${name} (${what}): ${gradient ? `${what === "scope" ? "up to" : "|gradient|"} ${gradient}` : "no gradient"}`);
    }));
    choose(0);
  }

  /** Choose one, and say which: the focus stays in the field. */
  function choose(n) {
    list.selectedIndex = Math.min(Math.max(n, 0), list.length - 1);
    say(count, `${list.length} found, the largest |gradient| first${list.length ? `. Chosen: ${list.selectedOptions[0].text}` : ""}`);
  }

  function pick() {
    const [name, what] = view.page.search.rows[list.value] ?? [];
    if (!name) return;
    show(false);
    view.find(name, what);
  }
  return { element, show };
}

/** A slider for each row of repeats, which shows another of them. */
export function makeRepeats(view) {
  const element = h("div.repeats");
  const sliders = new Map(); // by the name of the repeats
  /** Those that can be shown: without a kernel, those that are in the file. */
  const places = ({ name, labels, at }) => [...labels.keys()].filter((k) => k === at || k === labels.length - 1 || view.cache.canTurn(`${name}@${k}`));
  const shown = () => (view.page.repeats ?? []).filter((each) => places(each).length > 1);
  const find = (name) => shown().find((each) => each.name === name);

  /** Show that of the repeats which has a place among those that can be shown. */
  function turn(each, place) {
    const [{ name, labels, at }, every] = [each, places(each)];
    const k = every[Math.min(Math.max(place, 0), every.length - 1)];
    const now = view.cache.names.filter((own) => own.startsWith(`${name}@`));
    if (k !== at) view.turnRepeat([...now, ...(k === labels.length - 1 ? [] : [`${name}@${k}`])]);
  }

  return {
    element,
    /** So many repeats further. */
    by(count) {
      const [each] = shown();
      if (each) turn(each, places(each).indexOf(each.at) + count);
    },
    paint() {
      const rows = shown().map((each) => {
        const { name, labels, at } = each;
        const can = places(each);
        const words = `${labels[at]}, ${at + 1} of ${labels.length}${can.length < labels.length ? `; ${can.length} of them are in this file` : ""}`;
        if (!sliders.has(name)) sliders.set(name, makeSlider(`Which of ${labels[0]} to ${labels.at(-1)} is shown`, {}, (place) => turn(find(name), place)));
        set(sliders.get(name).input, { max: can.length - 1 });
        sliders.get(name).paint(can.indexOf(at), words);
        return sliders.get(name).element;
      });
      if (rows.length !== element.children.length || rows.some((row, n) => row !== element.children[n])) fill(element, ...rows);
      element.hidden = !rows.length;
    },
  };
}
