// Plain Node: the pure functions of view.mjs. Run by tests/test_view_mjs.py, which makes the data.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import * as view from "../../cgviz/screen/view.mjs";

const { numbers, page, opened } = JSON.parse(readFileSync(process.env.CGVIZ_TEST_DATA));
const question = (answer, mistakes = []) => ({ answer, mistakes });

test("numbers are written as Python writes them", () => {
  for (const [x, digits, text] of numbers) assert.equal(view.number(Number(x), digits), text, `${x} to ${digits}`);
});

test("None is written as None", () => assert.equal(view.number(null), "None"));

test("time runs from nothing, over the end of the forward pass, to the last step", () => {
  assert.deepEqual(view.moments(page.lines), [-2, -1, 0, 1, 2]);
  assert.equal(view.next(page.lines, 0), 1);
  assert.equal(view.next(page.lines, 2), 2);
  assert.equal(view.previous(page.lines, 1), 0);
  assert.equal(view.previous(page.lines, -2), -2);
});

test("a step that shows nothing is passed over", () => {
  const lines = { forward: [0], backward: [1, 4] };
  assert.equal(view.next(lines, 1), 4);
  assert.equal(view.previous(lines, 4), 1);
});

test("before anything ran only inputs are seen", () => {
  const seen = view.at(page.lines, -2).nodes.map((n) => n.seen);
  assert.deepEqual(seen, [true, true, false, false, false]);
});

test("the op that runs is marked, and what it reads", () => {
  const now = view.at(page.lines, -1);
  const op = now.nodes.findIndex((n) => n.now);
  assert.equal(op, view.nodeAt(page.lines, -1));
  now.links.forEach((link, i) => assert.equal(link.forwardNow, page.lines.links[i].to === op));
});

test("gradients come one step at a time, last op first", () => {
  const back = (step) => view.at(page.lines, step).links.filter((l) => l.back).length;
  assert.deepEqual([0, 1, 2].map(back), [0, 3, 5]);
  assert.ok(view.nodeAt(page.lines, 1) > view.nodeAt(page.lines, 2));
});

test("a sum is shown as far as it has come", () => {
  const { gradient } = page.texts.nodes[0];
  assert.equal(view.textAt(gradient, 0), "");
  assert.match(view.textAt(gradient, 1), /…$/);
  assert.match(view.textAt(gradient, 2), /= 12$/);
});

test("a sentence tells what happens at a step", () => {
  assert.equal(view.sentence(page, -1), "Forward 1 of 2: a makes a = 6.");
  assert.equal(view.sentence(page, 1), "Backward step 1 of 2: y gets upstream 1 and hands back 2 to a, 6 to x.");
  assert.match(view.sentence(page, -2), /Nothing has run yet/);
});

test("the table has a row for each step and input", () => {
  const rows = view.rows(page);
  assert.deepEqual(rows.map((r) => r.step), [1, 1, 2, 2]);
  assert.deepEqual(rows[0], { step: 1, op: "y", input: "a = 6", upstream: "1", local: "2", downstream: "2" });
});

test("a node and a link can be spoken", () => {
  assert.equal(view.spokenNode(page, 0, 0), "x (input), value 2");
  assert.match(view.spokenNode(page, 0, 2), /x \(input\), value 2, dy\/dx = 6 \+ 6 = 12/);
  assert.match(view.spokenLink(page, 0, 2), /^x \(input\) to a \(×\): value 2, gradient 6 flows back$/);
  assert.match(view.spokenLink(page, 0, -2), /value 2$/);
});

test("an answer is right to the digits that were shown", () => {
  assert.equal(view.judge("12", question([12])), "right");
  assert.equal(view.judge("0.333", question([1 / 3])), "right");
  assert.equal(view.judge("1/3", question([1 / 3])), "right");
  assert.equal(view.judge("−2,5", question([-2.5])), "right");
  assert.equal(view.judge("[1, 2.5; 3]", question([1, 2.5, 3])), "right");
  assert.equal(view.judge("1 2 3", question([1, 2, 3])), "right");
  assert.equal(view.judge("nan", question(["NaN"])), "right");
  assert.equal(view.judge("-inf", question(["-Infinity"])), "right");
  assert.equal(view.judge("None", question(null)), "right");
});

test("a mistake is called by its name", () => {
  const asked = question([12], [["sign", [-12]], ["upstream", [4]], ["path", [9]], ["local", [3]]]);
  assert.equal(view.judge("-12", asked), "sign");
  assert.equal(view.judge("4", asked), "upstream");
  assert.equal(view.judge("9", asked), "path");
  assert.equal(view.judge("3", asked), "local");
  assert.equal(view.judge("5", asked), "wrong");
  assert.equal(view.judge("twelve", asked), "unreadable");
  assert.equal(view.judge("", asked), "unreadable");
  assert.equal(view.judge("1 2", asked), "count");
  assert.equal(view.judge("0", question(null)), "none");
});

test("what is right is right, even where a mistake gives the same", () => {
  assert.equal(view.judge("0", question([0], [["sign", [0]]])), "right");
});

test("every verdict has words", () => {
  for (const name of ["right", "unreadable", "count", "none", "sign", "upstream", "local", "path", "sum", "wrong"]) {
    assert.ok(view.VERDICTS[name].length > 5);
  }
});

test("sizes run from vanishing to exploding", () => {
  assert.deepEqual([-9, -5, -3, 0, 3, 5, 9].map(view.sizeClass),
    ["vanishing", "tiny", "small", "usual", "large", "huge", "exploding"]);
  assert.equal(view.sizeClass(null), "none");
});

test("a page is known by its pass and by what is open", () => {
  assert.equal(view.pageKey(1, new Set(["b", "a"])), "1|a,b");
  assert.equal(view.pageKey(0, []), "0|");
});

test("what is turned over twice is as it was", () => {
  assert.deepEqual([...view.turnedOver(["a"], "b")], ["a", "b"]);
  assert.deepEqual([...view.turnedOver(["a", "b"], "a")], ["b"]);
  assert.deepEqual(view.toggledOf(view.pageKey(0, ["b", "a"])), ["a", "b"]);
  assert.deepEqual(view.toggledOf("0|"), []);
});

test("without a kernel the picture most like the wanted one is shown, with what was clicked as wanted", () => {
  const keys = ["0|", "0|a", "0|b", "0|a,b,c", "1|"];
  assert.equal(view.nearestKey(keys, 0, new Set(["a"]), "a"), "0|a");
  assert.equal(view.nearestKey(keys, 0, new Set(["a", "b"]), "b"), "0|b");
  assert.equal(view.nearestKey(keys, 0, new Set(["a", "c"]), "c"), "0|a,b,c");
  assert.equal(view.nearestKey(keys, 1, new Set(["a"]), ""), "1|");
  assert.equal(view.nearestKey(keys, 0, new Set(), "a"), "0|");
});

test("the body of a custom op comes with the op, and is read after it", () => {
  const { lines } = opened;
  const owner = lines.frames.find((frame) => frame.node >= 0).node;
  const inside = lines.nodes.flatMap((node, i) => (node.owner === owner ? [i] : []));
  assert.equal(inside.length, 3);
  for (const step of [-2, -1, 0]) {
    const { nodes } = view.at(lines, step);
    for (const i of inside) assert.equal(nodes[i].seen, nodes[owner].seen);
  }
  const order = view.reading(lines).map(({ kind, i }) => (kind === "frame" ? lines.frames[i].name : lines.nodes[i].key));
  assert.deepEqual(order.slice(0, 3), ["0:x", "scope:part:0", "1:square"]);
  assert.equal(order.length, 5); // ports and targets are passed by
});

test("what stands in many saved pictures is kept once", () => {
  const pages = [["0|", [{ notes: [1], texts: { nodes: [0], links: [] } }]]];
  const [[key, [found]]] = view.repeated({ parts: ["a", "b"], pages });
  assert.equal(key, "0|");
  assert.deepEqual(found, { notes: ["b"], texts: { nodes: ["a"], links: [] } });
});

test("pictures stand where all of them can be read", () => {
  assert.deepEqual(view.arrangement([500], 1000), { below: false, columns: 1 });
  assert.deepEqual(view.arrangement([900], 1000), { below: true, columns: 1 });
  assert.deepEqual(view.arrangement([300, 300], 1000), { below: false, columns: 2 });
  assert.deepEqual(view.arrangement([550, 550], 1000), { below: true, columns: 2 });
  assert.deepEqual(view.arrangement([700, 700], 1000), { below: false, columns: 1 });
  assert.deepEqual(view.arrangement([200], 700), { below: true, columns: 1 });
  assert.deepEqual(view.arrangement([2000, 2000], 1000), { below: true, columns: 1 });
});

test("an axis has round steps", () => {
  assert.deepEqual(view.ticks(-3, 3), [-2, 0, 2]);
  assert.deepEqual(view.ticks(0, 1), [0, 0.2, 0.4, 0.6000000000000001, 0.8, 1]);
  assert.deepEqual(view.ticks(1, 1), [1]);
});

test("a curve breaks where there is no number", () => {
  const same = (v) => v;
  assert.equal(view.curvePath([0, 1, 2, 3], [0, 1, null, 3], same, same), "M0.0 0.0L1.0 1.0M3.0 3.0");
  assert.equal(view.between([0, 1, 2], [0, 10, null], 0.5), 5);
  assert.equal(view.between([0, 1, 2], [0, 10, null], 1.5), null);
});

test("the range of a plot holds zero and leaves a pole out", () => {
  const [low, high] = view.rangeOf([[...Array(100).fill(1), 1e9]]);
  assert.ok(low <= 0 && high < 10);
  assert.deepEqual(view.rangeOf([[null]]), [-1, 1]);
});

test("a page without a kernel keeps its state and sends nothing", () => {
  const model = view.staticModel({ step: 3 });
  model.set("step", 4);
  assert.equal(model.get("step"), 4);
  assert.equal(model.save_changes(), undefined);
});
