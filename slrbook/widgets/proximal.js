import { ACTIVATIONS, curve, html, plot, resetButton, slider, svg, tickLabel } from "./common.js";

const STEPS = 1200;

// The bracket as a function of the score difference, with w = (1, -1).
function proximalBracket(delta, { omega, v_k, y, v_v }) {
  const s = 1 / (1 + Math.exp(-delta));
  const e = y - 2 * s + 1;
  return (delta - omega) ** 2 / (4 * v_k) + e * e / (2 * (1 + v_v * (s * s + (1 - s) * (1 - s))));
}

// All local minima, found on a grid and refined by golden section, the lowest first.
function proximalMinima(state) {
  // beyond this distance the first term alone exceeds the value at omega
  const reach = Math.sqrt(4 * state.v_k * proximalBracket(state.omega, state)) + 1e-3;
  const step = 2 * reach / STEPS;
  const at = (i) => proximalBracket(state.omega - reach + i * step, state);
  const found = [];
  for (let i = 1; i < STEPS; i += 1) {
    if (at(i) > at(i - 1) || at(i) >= at(i + 1)) continue;
    let low = state.omega - reach + (i - 1) * step;
    let high = low + 2 * step;
    const ratio = (Math.sqrt(5) - 1) / 2;
    while (high - low > 1e-9) {
      const a = high - ratio * (high - low);
      const b = low + ratio * (high - low);
      if (proximalBracket(a, state) < proximalBracket(b, state)) high = b;
      else low = a;
    }
    const delta = (low + high) / 2;
    found.push({ delta, value: proximalBracket(delta, state) });
  }
  return found.sort((a, b) => a.value - b.value);
}

// Above, the bracket and its minima; below, where the global minimum is for every omega.
function render({ model, el }) {
  const names = ["omega", "v_k", "y", "v_v"];
  const read = () => Object.fromEntries(names.map((name) => [name, model.get(name)]));
  const initial = read();
  const above = plot({ title: "", xLabel: "difference of the scores δ", yLabel: "bracket", height: 250 });
  const below = plot({ title: "", xLabel: "before the step, ω", yLabel: "after it, δ̂", height: 250 });
  const summary = html("p", { class: "slr-summary", "aria-live": "polite" });
  const X = [-9, 9];
  const range = (n) => Array.from({ length: n + 1 }, (_, i) => X[0] + (i * (X[1] - X[0])) / n);
  const colour = ACTIVATIONS.softmax.colour;
  let map = { key: "", points: [] };

  // The lower curve does not depend on omega, so a move of that slider need not compute it again.
  function globalMinima(state) {
    const key = [state.v_k, state.y, state.v_v].join();
    if (map.key !== key) {
      const points = range(240).map((omega) => [omega, proximalMinima({ ...state, omega })[0].delta]);
      map = { key, points };
    }
    return map.points;
  }

  function draw() {
    const state = read();
    const minima = proximalMinima(state);
    const [best] = minima;
    const top = Math.max(2, 1.3 * best.value + 1.5);
    const frame = above.frame({ x: X, y: [0, top] });
    const seen = range(360).map((delta) => [delta, proximalBracket(delta, state)]);
    curve(frame, seen.filter(([, value]) => value <= top), { colour });
    frame.layer.append(svg("line", { x1: frame.sx(state.omega), x2: frame.sx(state.omega),
      y1: frame.sy(0), y2: frame.sy(top), class: "slr-zero", "stroke-dasharray": "2 4" }));
    for (const minimum of minima.slice(1)) {
      if (minimum.value > top) continue;
      frame.layer.append(svg("circle", { cx: frame.sx(minimum.delta), cy: frame.sy(minimum.value), r: 6,
        style: "fill: none; stroke: var(--slr-ink); stroke-width: 2" }));
    }
    const lower = below.frame({ x: X, y: [-12, 12] });
    const parts = [[]];
    for (const point of globalMinima(state)) {
      const last = parts.at(-1).at(-1);
      if (last && Math.abs(point[1] - last[1]) > 0.8) parts.push([]);
      if (Math.abs(point[1]) <= 12) parts.at(-1).push(point);
    }
    curve(lower, X.map((x) => [x, x]), { colour: "var(--slr-ink)", dash: "2 4", width: 1.2 });
    for (const part of parts) if (part.length) curve(lower, part, { colour });
    for (const [{ layer, sx, sy }, x, y] of [[frame, best.delta, best.value],
      [lower, state.omega, best.delta]]) {
      layer.append(svg("circle", { cx: sx(x), cy: sy(y), r: 7, style: "fill: var(--slr-linear)" }));
    }
    Object.assign(above.node.dataset, { delta: best.delta, value: best.value, minima: minima.length });
    const text = (value) => tickLabel(Number(value.toFixed(2)));
    const count = minima.length === 1 ? "1 local minimum" : `${minima.length} local minima`;
    summary.textContent = `${count}; the lowest at δ̂ = ${text(best.delta)} with M = `
      + `${text(best.value)}. ω = ${text(state.omega)} before the step.`;
    above.describe(`The bracket against the difference of the scores. ${summary.textContent}`);
    below.describe(`The minimiser against its value before the step, ${parts.length === 1
      ? "a continuous curve" : "a curve with a jump"}. ${summary.textContent}`);
  }

  function make(name, label, min, max, step) {
    return slider({ label, min, max, step, value: initial[name], format: (x) => x.toFixed(1),
      onInput: (value) => {
        model.set(name, value);
        model.save_changes();
      } });
  }
  const controls = { omega: make("omega", "ω", -8, 8, 0.1), v_k: make("v_k", "Vₖ", 0.2, 12, 0.2),
    y: make("y", "label y", -3, 3, 0.1), v_v: make("v_v", "Vᵥ", 0, 3, 0.1) };
  for (const name of names) {
    model.on(`change:${name}`, () => {
      controls[name].set(model.get(name));
      draw();
    });
  }
  el.append(html("div", { class: "slr-figure" },
    html("div", { class: "slr-controls" }, ...names.map((name) => controls[name].node),
      resetButton(model, names)),
    above.node, below.node, summary));
  draw();
}

export default { render };
