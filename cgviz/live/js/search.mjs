// Large pictures: find an op, a variable or a scope; choose which of repeats, such as the steps of a recurrent network, is shown.
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
  const keys = { ArrowDown: () => choose(list.selectedIndex + 1), ArrowUp: () => choose(list.selectedIndex - 1), Enter: pick };
  const element = h("div.search", { popover: true, onkeydown: (event) => use(event, keys[event.key]) }, field, count, list);

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
    const [come, order] = [atEnd(view), [...rows.keys()]]; // before gradients have come, nothing is told of them, not even by the order
    if (!come) order.sort((j, k) => at[j] - at[k]);
    const found = order.filter((k) => words.every((word) => said[k].includes(word)));
    const shut = (k) => open[k] && !view.cache.canTurn(open[k]);
    fill(list, ...found.map((k) => h("option", { value: k }, `${rows[k][come ? 3 : 2]}${shut(k) ? "; its fold does not open in this file" : ""}`)));
    choose(0);
  }

  /** Choose one, and say which: the focus stays in the field. */
  function choose(n) {
    list.selectedIndex = Math.min(Math.max(n, 0), list.length - 1);
    say(count, `${list.length} found${atEnd(view) ? ", the largest |gradient| first" : ""}${list.length ? `. Chosen: ${list.selectedOptions[0].text}` : ""}`);
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

  return {
    element,
    paint() {
      const shown = (view.page.repeats ?? []).flatMap(({ name, labels, at }) => {
        const own = labels.map((_, k) => (k === labels.length - 1 ? "" : `${name}@${k}`)); // the last is shown where no other is
        const can = [...own.keys()].filter((k) => k === at || !own[k] || view.cache.canTurn(own[k]));
        if (can.length < 2) return [];
        const turn = (n) => view.choose(`${name}@`, rows.get(name).names[n]);
        if (!rows.has(name)) rows.set(name, { slider: makeSlider(`Which of ${labels[0]} to ${labels.at(-1)} is shown`, {}, turn) });
        const row = Object.assign(rows.get(name), { names: can.map((k) => own[k]) });
        const words = can.length < labels.length ? `; ${can.length} of them are in this file` : "";
        row.slider.paint(can.indexOf(at), `${labels[at]}, ${at + 1} of ${labels.length}${words}`, can.length - 1);
        return [row.slider.element];
      });
      fill(element, ...shown);
    },
  };
}
