// Plain Node: what of the browser's part needs no page. Run by tests/live/test_node.py, which makes the data.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { nearest, number } from "../../cgviz/live/js/explore.mjs";
import { landedOn, legs } from "../../cgviz/live/js/flight.mjs";
import { staticModel } from "../../cgviz/live/js/mount.mjs";
import { PageCache, pageKey, turnedOver } from "../../cgviz/live/js/pages.mjs";
import { Questions, VERDICTS, judge } from "../../cgviz/live/js/predict.mjs";
import { SEED, moments, next, nodeAt, previous, sentence, spoken, textAt } from "../../cgviz/live/js/time.mjs";

const { numbers, page, opened, elements } = JSON.parse(readFileSync(process.env.CGVIZ_TEST_DATA));
const question = (answer, mistakes = [], noise = 1e-15) => ({ answer, mistakes, noise, hint: "a hint" });

test("numbers are written as Python writes them, to the digits that are shown", () => {
  for (const [x, digits, text] of numbers) assert.equal(number(x, digits), text, `${x} to ${digits}`);
});

test("time runs from nothing, over the end of the forward pass, to the last step", () => {
  assert.deepEqual(moments(page.display), [-2, -1, 0, SEED, 1, 2]);
  assert.equal(next(page.display, 0), SEED);
  assert.equal(next(page.display, 2), 2);
  assert.equal(previous(page.display, 1), SEED);
  assert.equal(previous(page.display, -2), -2);
});

test("a step that shows nothing is passed over", () => {
  const display = { moments: [-1, 0, SEED, 1, 4].map((step) => [step, ""]) };
  assert.equal(next(display, 1), 4);
  assert.equal(previous(display, 4), 1);
});

/** Everything that is seen at `step`: its role, what it belongs to and, of a text, what it says. */
function seenAt({ display, texts }, step) {
  const paths = display.paths.filter((path) => path.step <= step).map(({ role, of, i }) => ({ role, of, i }));
  const written = display.texts.map(({ role, of, i }, k) => ({ role, of, i, says: textAt(texts.written[k], step) }));
  return [...paths, ...written.filter(({ says }) => says)];
}

const backward = (shown) => shown.filter(({ role }) => role === "backward");

test("before anything ran only inputs have their values", () => {
  const seen = page.display.nodes.map((node) => node.step <= -2);
  assert.deepEqual(seen, [true, true, false, false, false]);
});

test("the op that runs is emphasised, and what it reads", () => {
  const op = nodeAt(page.display, -1);
  assert.ok(page.display.nodes[op].now.includes(-1));
  for (const { role, of, i, now } of page.display.paths) {
    if (of === "link" && role === "forward") assert.equal(now.includes(-1), page.display.links[i].target === op);
  }
});

test("gradients come one step at a time, last op first", () => {
  assert.deepEqual([0, SEED, 1, 2].map((step) => backward(seenAt(page, step)).length), [0, 1, 3, 5]);
  assert.ok(nodeAt(page.display, 1) > nodeAt(page.display, 2));
});

test("at every step the page shows what paper shows", () => {
  const inOrder = (found) => found.map((each) => JSON.stringify(each)).sort();
  for (const [name, { page: own, paper }] of Object.entries(elements)) {
    for (const [step, drawn] of Object.entries(paper)) {
      const seen = seenAt(own, Number(step)).filter(({ role }) => role !== "handle" && role !== "tab");
      assert.deepEqual(inOrder(seen.map(({ role, of, i, says }) => [role, of, i, says ?? null])), inOrder(drawn), `${name} at ${step}`);
    }
  }
});

test("a sum is shown as far as it has come", () => {
  const own = page.display.texts.findIndex(({ of, i, role }) => of === "node" && i === 0 && role === "gradient");
  const gradient = page.texts.written[own];
  assert.equal(textAt(gradient, 0), "");
  assert.match(textAt(gradient, 1), /^… \+ 6$/);
  assert.match(textAt(gradient, 2), /= 12$/);
});

test("to an op fly the numbers that came since it last had a turn, from it what it returns", () => {
  const links = (found) => found.map(({ i }) => [page.display.links[i].source, page.display.links[i].target]);
  const [x, w, a, y, target] = [0, 1, 2, 3, 4];
  const at = (step) => [legs(page.display, step).node, links(legs(page.display, step).come), links(legs(page.display, step).leave)];
  assert.deepEqual(at(-1), [a, [[x, a], [w, a]], [[a, y]]]);
  assert.deepEqual(at(SEED), [-1, [], [[y, target]]]);
  assert.deepEqual(at(1), [y, [[y, target]], [[a, y], [x, y]]]);
  assert.deepEqual(at(2), [a, [[a, y]], [[x, a], [w, a]]]);
});

test("terms land in a sum one by one", () => {
  assert.equal(landedOn("", "6"), "6 + \u2026");
  assert.equal(landedOn(landedOn("", "6"), "\u22122"), "6 + \u22122 + \u2026");
});

test("a sentence tells what happens at a step", () => {
  assert.equal(sentence(page, -1), "Forward 1 of 2: a = 6.");
  assert.equal(sentence(page, 1), "Backward step 1 of 2: y gets upstream 1 and returns 2 to a and 6 to x.");
  assert.match(sentence(page, -2), /^Forward 0 of 2: nothing has run yet/);
  assert.equal(sentence(page, SEED), "The backward pass starts: y gets upstream 1.");
});

test("a node is spoken, and not what is asked for", () => {
  assert.equal(spoken(page, 0, 0, false), "x (input), value 2");
  assert.match(spoken(page, 0, 2, false), /x \(input\), value 2, dy\/dx = 6 \+ 6 = 12/);
  assert.equal(spoken(page, 0, 2, true), "x (input), value 2, gradient hidden: predict it");
});

test("an answer is right to the digits that were shown", () => {
  assert.equal(judge("12", question([12])), "right");
  assert.equal(judge("12.", question([12])), "right");
  assert.equal(judge("0.333", question([1 / 3])), "right");
  assert.equal(judge("1/3", question([1 / 3])), "right");
  assert.equal(judge("−2,5", question([-2.5])), "right");
  assert.equal(judge("[1, 2.5; 3]", question([1, 2.5, 3])), "right");
  assert.equal(judge("1 2 3", question([1, 2, 3])), "right");
  assert.equal(judge("[1,2]", question([1, 2])), "right");
  assert.equal(judge("120,000", question([120000])), "right");
  assert.equal(judge("\u22121,200,000", question([-1.2e6])), "right");
  assert.equal(judge("1,200", question([1.2])), "right");
  assert.equal(judge("1,200", question([1, 200])), "right");
  assert.notEqual(judge("12,000", question([120000])), "right");
  assert.notEqual(judge("0", question([1e-10])), "right");
  assert.equal(judge("0", question([6.1e-17])), "right");
  assert.equal(judge("0", question([3e-20], [], 1e-35)), "a hint");
  assert.equal(judge("-3e-20", question([3e-20], [["sign", [-3e-20]]], 1e-35)), "sign");
  assert.equal(judge("[-2,5]", question([-2.5])), "right");
  assert.equal(judge("nan", question(["NaN"])), "right");
  assert.equal(judge("twelve", question(["NaN"])), "unreadable");
  assert.equal(judge("1 NaN", question([1, "NaN"])), "right");
  assert.equal(judge("-inf", question(["-Infinity"])), "right");
  assert.equal(judge("− 1 / 2", question([-0.5])), "right");
});

test("a list is read however its numbers are set apart", () => {
  for (const text of ["2,5; 3,5", "2,5, 3,5", "2,5 3,5", "(5/2, 7/2)", "5 / 2; 7 / 2", "2.5,3.5", "[2.5 3.5]", "2.5, 35e-1"]) {
    assert.equal(judge(text, question([2.5, 3.5])), "right", text);
  }
  for (const text of ["[[1,2],[3,4]]", "1 2; 3 4", "1,2,3,4"]) {
    assert.equal(judge(text, question([1, 2, 3, 4])), "right", text);
  }
  assert.equal(judge("2 − 3", question([2, -3])), "right");
});

test("what is no number is not taken for one", () => {
  for (const text of ["banana", "6!", "2*3", "0x6", "2 apples", "-"]) {
    assert.equal(judge(text, question(["NaN"])), "unreadable", text);
  }
});

test("a mistake is called by its name", () => {
  const asked = question([12], [["sign", [-12]], ["upstream", [4]], ["path", [9]], ["local", [3]]]);
  assert.equal(judge("-12", asked), "sign");
  assert.equal(judge("4", asked), "upstream");
  assert.equal(judge("9", asked), "path");
  assert.equal(judge("3", asked), "local");
  assert.equal(judge("5", asked), "a hint");
  assert.equal(judge("twelve", asked), "unreadable");
  assert.equal(judge("", asked), "unreadable");
  assert.equal(judge("1 2", asked), "count");
});

test("what is right is right, even where a mistake gives the same", () => {
  assert.equal(judge("0", question([0], [["sign", [0]]])), "right");
});

test("every verdict has words", () => {
  for (const name of ["right", "unreadable", "count"]) {
    assert.ok(VERDICTS[name].length > 5);
  }
});

test("a page is known by its pass and by what is turned over", () => {
  assert.equal(pageKey(1, new Set(["b", "a"])), "1|a\nb");
  assert.equal(pageKey(0, []), "0|");
});

test("what is turned over twice is as it was", () => {
  assert.deepEqual(turnedOver(["a"], ["b"]), ["a", "b"]);
  assert.deepEqual(turnedOver(["a", "b"], ["a"]), ["b"]);
});

test("without a kernel what was clicked is as wanted, and the rest as at first where that was not stored", () => {
  const doc = { which: 0, pages: [], more: ["0|a", "0|b", "0|a\nb\nc", "1|"].map((key) => [key, []]) };
  const after = (...turns) => {
    const cache = new PageCache(doc, false);
    for (const turn of turns) cache.turn(...turn);
    return cache.key;
  };
  assert.equal(after([0, "a"]), "0|a");
  assert.equal(after([0, "a"], [0, "b"]), "0|b"); // "0|a\nb" was not stored
  assert.equal(after([0, "a"], [0, "b", "c"]), "0|a\nb\nc");
  assert.equal(after([0, "a"], [0, "b", "c"], [0, "c"]), "0|");
  assert.equal(after([0, "a"], [1]), "1|");
  assert.equal(after([0, "a"], [0, "a"]), "0|");
});

test("the body of a custom op comes with the op", () => {
  const { display } = opened;
  const owner = display.frames.find((frame) => frame.node >= 0).node;
  const outline = display.paths.find(({ role, of, i }) => role === "frame" && of === "node" && i === owner);
  const numbers = outline.d.match(/[-\d.]+/g).map(Number);
  const [xs, ys] = [0, 1].map((axis) => numbers.filter((_, n) => n % 2 === axis));
  const within = (x, all) => Math.min(...all) - 1 <= x && x <= Math.max(...all) + 1; // a port is on the frame
  const inside = display.nodes.flatMap(({ x, y }, i) => (i !== owner && within(x, xs) && within(y, ys) ? [i] : []));
  assert.equal(inside.length, 3);
  for (const i of inside) assert.equal(display.nodes[i].step, display.nodes[owner].step);
});

test("a page without a kernel keeps its state and sends nothing", () => {
  const model = staticModel({ step: 3 });
  model.set("step", 4);
  assert.equal(model.get("step"), 4);
  assert.equal(model.save_changes(), undefined);
});

test("a page cache gives what it has and turns over what it can", () => {
  const doc = { which: 0, pages: ["first"], more: [["0|a", ["a open"]], ["1|", ["second pass"]]] };
  const saved = new PageCache(doc, false);
  assert.deepEqual(saved.pages, ["first"]);
  assert.deepEqual([saved.canTurn("a"), saved.canTurn("b")], [true, false]);
  saved.turn(0, "a");
  assert.deepEqual(saved.pages, ["a open"]);
  saved.turn(1);
  assert.deepEqual([saved.key, saved.pages], ["1|", ["second pass"]]); // 1|a was not saved
  const live = new PageCache(doc, true);
  live.turn(0, "b");
  assert.deepEqual([live.key, live.pages], ["0|b", undefined]); // Python has to be asked
  live.turn(0, "b");
  assert.deepEqual(live.pages, ["first"]);
});

test("what a quiz or a slider depends on is not turned over", () => {
  const doc = { which: 0, pages: [], more: [["0|a", []]] };
  for (const fixed of ["quiz", "sliders"]) assert.equal(new PageCache({ ...doc, [fixed]: {} }, true).canTurn("a"), false);
});

test("a question holds back its step and the ops that would tell", () => {
  const asked = [{ key: "a", step: 1, link: 0, nodes: [1] }, { key: "b", step: 2, link: null, nodes: [2] }];
  const questions = new Questions({ questions: asked });
  const answer = (n) => (questions.all[n].done = true);
  assert.equal(questions.allowed(9), 1);
  assert.equal(questions.told(1), SEED); // what came before the question
  answer(0);
  assert.equal(questions.allowed(9), 2);
  assert.deepEqual([[...questions.hidden.nodes], [...questions.hidden.links]], [[2], [null]]);
  assert.equal(questions.told(2), 1.5);
  answer(1);
  assert.equal(questions.told(2), 2);
});

test("without a quiz everything is told with its step", () => {
  const questions = new Questions(null);
  assert.equal(questions.allowed(7), 7);
  assert.equal(questions.told(7), 7);
});

test("a cell of a training opens the nearest step that was kept", () => {
  assert.deepEqual([0, 4, 5, 9].map((step) => nearest([0, 4, 7], step)), [0, 4, 4, 7]);
});

test("without a kernel a step of a training is as it was stored where what is open was not", () => {
  const cache = new PageCache({ which: 0, pages: "0", more: [["0|step:5", "5"], ["0|a", "0a"], ["0|step:7", "7"], ["0|a\nstep:7", "7a"], ["1|", "1"]] }, false);
  cache.turn(0, "a");
  assert.equal(cache.pages, "0a");
  cache.turn(0, "", "step:5");
  assert.equal(cache.pages, "5");
  cache.turn(0, "step:5", "step:7");
  cache.turn(0, "a");
  assert.equal(cache.pages, "7a");
  cache.turn(0, "a");
  assert.equal(cache.pages, "7");
  cache.turn(0, "step:7", "");
  assert.equal(cache.pages, "0");
  cache.turn(0, "", "step:7");
  cache.turn(1);
  assert.deepEqual([cache.pages, cache.names], ["1", []]);
});
