// Time: which steps there are, what is shown at each, in words, too, and a player that moves on by itself.

export const SEED = 0.5; // the start of the backward pass: upstream is at its target, and no rule has run

/** Every step of a display list: from -F, where nothing has run, to 0, where all has; then SEED, and the backward steps. */
export const moments = (display) => display.moments.map(([step]) => step);

/** The step after `step`, or before it; the same where there is none. */
export const next = (display, step) => moments(display).find((m) => m > step) ?? step;
export const previous = (display, step) => moments(display).findLast((m) => m < step) ?? step;

/** A text with versions, [[from step, text], ...], as it is at `step`. */
export const textAt = (versions, step) => versions.findLast(([from]) => from <= step)?.[1] ?? "";

/** The node whose op runs, or whose rule runs, at `step`; -1 where none does. */
export const nodeAt = (display, step) => display.nodes.findLastIndex((node) => node.now.includes(step));

/** A player, which moves on after so many milliseconds, or stops for 0. `tick` moves on and returns the next wait; `told` hears whether it plays. */
export function makePlayer(tick, told) {
  let timer = 0;
  return function play(wait) {
    clearTimeout(timer);
    const changed = Boolean(timer) !== Boolean(wait);
    timer = wait && setTimeout(() => play(tick()), wait);
    if (changed) told(Boolean(wait));
  };
}

// --- in words ---

/** What happens at a step, in one sentence; where a question is `asked`, only that, and the verdict on the last answer. */
export function sentence({ display, panels, texts }, step, asked) {
  const where = textAt(display.moments, step);
  const panel = panels[nodeAt(display, step)];
  const told = asked ? `predict. ${asked.text} ${asked.verdict ?? ""}` : step === SEED ? texts.seed : step > 0 ? panel?.ruled : panel?.ran;
  return `${where[0].toUpperCase()}${where.slice(1)}: ${told ?? "nothing has run yet; inputs and variables have their values."}`;
}

/** What a screen reader says of a node at `step`; its gradient may be `hidden`. */
export function spoken({ display, texts, panels }, i, step, hidden) {
  const value = display.nodes[i].step <= step ? `value ${panels[i].value}` : "not run yet";
  const own = display.texts.findIndex((text) => text.of === "node" && text.i === i && text.role === "gradient");
  const gradient = own < 0 ? "" : textAt(texts.written[own], step);
  const told = gradient && (gradient.includes("=") ? `, ${gradient}` : `, gradient ${gradient}`);
  return `${texts.nodes[i]}, ${value}${hidden ? ", gradient hidden: predict it" : told}${(!hidden && panels[i].come <= step && panels[i].blocked) || ""}`.replace(/\s*\n\s*/g, " ");
}
