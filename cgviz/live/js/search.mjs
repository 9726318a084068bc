// Large pictures: find an op, a variable or a scope; choose which of repeats, such as the steps of a loop, is shown.
import { atEnd } from "./bar.mjs";
import { fill, h, makeSlider, say, use } from "./dom.mjs";

/** Words as they can be typed: `x2` for x², and `3 *` for 3 ×. */
const keyed = (words) => words.toLowerCase().normalize("NFKC").replaceAll("\u00d7", "*").replaceAll("\u2212", "-");

/** A field that finds what is in the picture of a view, also in closed scopes. */
export function makeSearch(view) {
  const field = h("input", {
    type: "text", autocomplete: "off", oninput: find,
    "aria-label": "Find an op, a variable or a scope", placeholder: "op, variable, scope",
  });
  const list = h("select", { size: 10, "aria-label": "Found", onclick: pick });
  const count = h("p.count", { role: "status" });
  const by = (places) => () => choose(list.selectedIndex + places);
  const keys = { ArrowDown: by(1), ArrowUp: by(-1), Enter: pick };
  const onkeydown = (event) => use(event, keys[event.key]);
  const element = h("div.search", { popover: true, onkeydown }, field, count, list);

  function show() {
    field.value = "";
    find();
    element.showPopover(); // Escape closes it and gives the focus back
    field.focus();
  }

  /** List the rows that have all the words, in themselves or on their nodes. */
  function find() {
    const words = keyed(field.value).split(/\s+/);
    const { search: { rows, at, open }, texts } = view.page;
    const said = rows.map((row, k) => keyed(`${row[2]} ${open[k] ? "" : texts.nodes[at[k]]}`));
    const [come, order] = [atEnd(view), [...rows.keys()]];
    if (!come) order.sort((j, k) => at[j] - at[k]); // not by |gradient|, which is not told yet
    const found = order.filter((k) => words.every((word) => said[k].includes(word)));
    const shut = (k) => open[k] && !view.cache.canTurn(open[k]);
    const listed = (k) => `${rows[k][come ? 3 : 2]}${shut(k) ? "; its fold does not open in this file" : ""}`;
    fill(list, ...found.map((k) => h("option", { value: k }, listed(k))));
    choose(0);
  }

  /** Choose one, and say which: the focus stays in the field. */
  function choose(n) {
    list.selectedIndex = Math.min(Math.max(n, 0), list.length - 1);
    const chosen = list.length ? `. Chosen: ${list.selectedOptions[0].text}` : "";
    say(count, `${list.length} found${atEnd(view) ? ", the largest |gradient| first" : ""}${chosen}`);
  }

  function pick() {
    const row = view.page.search.rows[list.value];
    if (!row) return;
    element.hidePopover();
    view.find(...row);
  }
  return { element, show };
}

/** A slider for each row of repeats, to choose which of them is shown. */
export function makeRepeats(view) {
  const element = h("div.repeats");
  const rows = new Map(); // by the name of the repeats: their slider, and the names of those that can be shown

  /** The slider of one row, if there is anything to choose. */
  function painted({ name, labels, at }) {
    const own = labels.map((_, k) => (k === labels.length - 1 ? "" : `${name}@${k}`)); // the last: if no other is
    const can = [...own.keys()].filter((k) => k === at || !own[k] || view.cache.canTurn(own[k]));
    if (can.length < 2) return null;
    const turn = (n) => view.choose(`${name}@`, rows.get(name).names[n]);
    const title = `Which of ${labels[0]} to ${labels.at(-1)} is shown`;
    if (!rows.has(name)) rows.set(name, { slider: makeSlider(title, {}, turn) });
    const { slider } = Object.assign(rows.get(name), { names: can.map((k) => own[k]) });
    const words = can.length < labels.length ? `; ${can.length} of them are in this file` : "";
    slider.paint(can.indexOf(at), `${labels[at]}, ${at + 1} of ${labels.length}${words}`, can.length - 1);
    return slider.element;
  }
  return { element, paint: () => fill(element, ...(view.page.repeats ?? []).map(painted)) };
}
