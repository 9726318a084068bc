// The table: the numbers of the backward pass once more, for who reads rather than looks.
import { h } from "./dom.mjs";
import { rows } from "./words.mjs";

const COLUMNS = ["op", "input", "upstream", "local", "downstream"];

/** The table of a page, up to but without the step `before`; made when it is opened. */
export function tableInk(on) {
  const head = h("tr", {}, ...["step", ...COLUMNS].map((name) => h("th", { scope: "col" }, name)));
  const body = h("tbody");
  const element = h("details.table", {}, h("summary", {}, "The same numbers as a table"),
    h("div.scroll", { tabindex: 0, role: "group", "aria-label": "Backward table" },
      h("table.plain", {}, h("caption", {}, "Backward pass, step by step"), h("thead", {}, head), body)));
  let page = null;
  let before = Infinity;
  const line = (row) => h("tr", {}, h("td", {}, String(row.step)), h("th", { scope: "row" }, row.op),
    ...COLUMNS.slice(1).map((name) => h("td", {}, row[name])));
  const fill = () => {
    if (!element.open || body.children.length) return;
    body.replaceChildren(...rows(page).filter((row) => row.step < before).map(line));
  };
  on(element, "toggle", fill);
  return {
    element,
    show(page_, before_) {
      [page, before] = [page_, before_];
      body.replaceChildren();
      fill();
    },
  };
}
