// Time: which steps there are, what is shown at each, in words, too, and a player that moves on by itself.

export const SEED = 0.5; // the start of the backward pass: upstream is at its target, and no rule has run

/** The steps of a display list: from -F, where nothing has run, to 0, where all has; then SEED, the backward steps. */
export const moments = (display) => display.moments.map(([step]) => step);
/** The step after `step`, or before it; the same where there is none. */
export const next = (display, step) => moments(display).find((m) => m > step) ?? step;
export const previous = (display, step) => moments(display).findLast((m) => m < step) ?? step;

/** A text with versions, [[from step, text], ...], as it is at `step`. */
export const textAt = (versions, step) => versions.findLast(([from]) => from <= step)?.[1] ?? "";
/** The node whose op runs, or whose rule runs, at `step`; -1 where none does. */
export const nodeAt = (display, step) => display.nodes.findLastIndex((node) => node.now.includes(step));

/** A player moves on after some milliseconds, or stops for 0. `tick` tells the next wait, `told` hears if it runs. */
export function makePlayer(tick, told) {
  let timer = 0;
  return function play(wait) {
    clearTimeout(timer);
    const changed = Boolean(timer) !== Boolean(wait);
    timer = wait && setTimeout(() => play(tick()), wait);
    if (changed) told(Boolean(wait));
  };
}
const NOTHING = "nothing has run yet; inputs and variables have their values.";

/** What happens at a step; where a question is `asked`, only that, and the verdict on the last answer. */
export function sentence({ display, panels, texts }, step, asked) {
  const where = textAt(display.moments, step);
  const { ruled, ran } = panels[nodeAt(display, step)] ?? {};
  const told = step === SEED ? texts.seed : step > 0 ? ruled ?? "a rule runs that is not shown." : ran;
  const words = asked ? `predict. ${asked.text} ${asked.verdict ?? ""}` : told ?? NOTHING;
  return `${where[0].toUpperCase()}${where.slice(1)}: ${words}`;
}

/** What a screen reader says of a node at `step`; its gradient may be `hidden`. */
export function spoken({ display, texts, panels }, i, step, hidden) {
  const value = display.nodes[i].step <= step ? `value ${panels[i].value}` : "not run yet";
  const own = display.texts.findIndex((text) => text.of === "node" && text.i === i && text.role === "gradient");
  const gradient = own < 0 ? "" : textAt(texts.written[own], step);
  const told = gradient && (gradient.includes("=") ? `, ${gradient}` : `, gradient ${gradient}`);
  const blocked = (panels[i].come <= step && panels[i].blocked) || "";
  const back = hidden ? ", gradient hidden: predict it" : told + blocked;
  return `${texts.nodes[i]}, ${value}${back}`.replace(/\s*\n\s*/g, " ");
}
