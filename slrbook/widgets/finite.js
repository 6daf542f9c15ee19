import { ACTIVATIONS, choice, curve, html, plot, resetButton, slider, svg } from "./common.js";

// Learning curves from published numbers: lines are theory, open marks are simulations.

const QUANTITIES = [
  ["risk", "risk"], ["m_k", "key overlap m_k"], ["q_k", "key size q_k"],
  ["m_v", "value overlap m_v"], ["q_v", "value size q_v"],
];
const TASK_NAMES = { "spiked-1": "spiked, ν = 1", "spiked-2": "spiked, ν = 2", "max-inf": "max, ν = ∞" };
const NAMES = ["softmax", "linear"];

function mark({ layer, sx, sy }, [x, mean, error], name) {
  const style = `stroke: ${ACTIVATIONS[name].colour}; fill: var(--pst-color-background, #fff)`;
  const [cx, cy] = [sx(x), sy(mean)];
  layer.append(svg("line", { x1: cx, x2: cx, y1: sy(mean - 2 * error), y2: sy(mean + 2 * error),
    style, "stroke-width": 2 }));
  const data = { "data-name": name, "data-x": x, "data-mean": mean, "data-error": error };
  layer.append(name === "softmax"
    ? svg("circle", { cx, cy, r: 4.5, "stroke-width": 2, style, ...data })
    : svg("rect", { x: cx - 4.2, y: cy - 4.2, width: 8.4, height: 8.4, "stroke-width": 2, style, ...data }));
}

function render({ model, el }) {
  const [ridges, alphas] = [model.get("ridges"), model.get("alphas")];
  const [theory, simulation, bayes] = ["theory", "simulation", "bayes"].map((name) => model.get(name));
  const figure = plot({ title: "", xLabel: "samples per dimension α = N/D", yLabel: "" });
  const yLabel = figure.node.querySelectorAll(":scope > text")[1];
  const summary = html("p", { class: "slr-summary", "aria-live": "polite" });

  function draw() {
    const [task, quantity] = [model.get("task"), model.get("quantity")];
    const [ridge, at] = [model.get("ridge"), model.get("alpha")];
    const name = QUANTITIES.find(([key]) => key === quantity)[1];
    yLabel.textContent = name;
    const risk = quantity === "risk";
    const all = NAMES.flatMap((a) => theory[task][a][quantity].flat()).filter((v) => v !== null);
    const y = risk ? [0.12, 6] : [Math.min(0, ...all), Math.max(1, ...all) * 1.05];
    const frame = figure.frame({ x: [0.45, 22], y, xLog: true, yLog: risk,
      xTicks: [0.5, 1, 2, 4, 8, 20], yTicks: risk ? [0.2, 0.5, 1, 2, 5] : null });
    frame.layer.append(svg("line", { x1: frame.sx(alphas[at]), x2: frame.sx(alphas[at]),
      y1: frame.sy(y[0]), y2: frame.sy(y[1]), class: "slr-zero", "stroke-dasharray": "2 4" }));
    if (risk) {
      curve(frame, alphas.map((x, i) => [x, bayes[task][i]]), { ...ACTIVATIONS.bayes, dash: "2 2" });
    }
    const values = {};
    for (const activation of NAMES) {
      const row = theory[task][activation][quantity][ridge];
      const seen = alphas.map((x, i) => [x, row[i]]).filter(([, value]) => value !== null);
      curve(frame, seen, ACTIVATIONS[activation]);
      for (const point of simulation[task][activation][quantity][ridge] ?? []) {
        mark(frame, point, activation);
      }
      values[activation] = row[at];
      figure.node.dataset[activation] = row[at];
    }
    const text = (value) => (value === null ? "no solution" : value.toPrecision(3));
    summary.textContent = `α = ${alphas[at]}, ridge ${ridges[ridge]}: softmax (solid) ${text(values.softmax)}, `
      + `linear (dashed) ${text(values.linear)}`
      + (risk ? `, Bayes-optimal (dotted) ${text(bayes[task][at])}.` : ".");
    figure.describe(`${name} against samples per dimension, ${TASK_NAMES[task]}. ${summary.textContent}`);
  }

  function control(name, node) {
    model.on(`change:${name}`, () => {
      node.set(model.get(name));
      draw();
    });
    return node.node;
  }
  const change = (name) => (value) => {
    model.set(name, value);
    model.save_changes();
  };
  const tasks = Object.keys(theory).map((key) => [key, TASK_NAMES[key]]);
  el.append(html("div", { class: "slr-figure" },
    html("div", { class: "slr-controls" },
      control("task", choice({ label: "task", options: tasks, value: model.get("task"),
        onInput: change("task") })),
      control("quantity", choice({ label: "show", options: QUANTITIES, value: model.get("quantity"),
        onInput: change("quantity") })),
      control("ridge", slider({ label: "ridge r", min: 0, max: ridges.length - 1, step: 1,
        value: model.get("ridge"), format: (i) => String(ridges[i]), onInput: change("ridge") })),
      control("alpha", slider({ label: "marker α", min: 0, max: alphas.length - 1, step: 1,
        value: model.get("alpha"), format: (i) => String(alphas[i]), onInput: change("alpha") })),
      resetButton(model, ["task", "quantity", "ridge", "alpha"])),
    figure.node, summary));
  draw();
}

export default { render };
