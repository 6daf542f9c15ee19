import { button, choice, html, plot, resetButton, slider, svg, tickLabel } from "./common.js";

// The stored random numbers of one sequence, as a sequence of the chosen task.
function sequence(model) {
  const k = model.get("sequence");
  const nu = model.get("nu");
  const length = model.get("length");
  const scores = model.get("normals")[k].slice(0, length);
  let location = 0;
  if (model.get("task") === "spiked") {
    location = Math.floor(model.get("uniforms")[k] * length);
    scores[location] += Math.sqrt(nu);
  } else {
    const tilted = scores.map((b, i) => nu * b + model.get("gumbels")[k][i]);
    location = tilted.indexOf(Math.max(...tilted));
  }
  const scale = model.get("task") === "spiked" ? Math.sqrt(nu) : nu;
  const top = Math.max(...scores);
  const kernel = scores.map((s) => Math.exp(scale * (s - top)));
  const sum = kernel.reduce((a, b) => a + b, 0);
  return { scores, location, posterior: kernel.map((value) => value / sum) };
}

// One sequence: the key score of each token above, the posterior of the location below.
function render({ model, el }) {
  const names = ["task", "nu", "length", "sequence"];
  const initial = Object.fromEntries(names.map((name) => [name, model.get(name)]));
  const above = plot({ title: "", xLabel: "token", yLabel: "key score", height: 200 });
  const below = plot({ title: "", xLabel: "token", yLabel: "posterior", height: 230 });
  const summary = html("p", { class: "slr-summary", "aria-live": "polite" });

  function draw() {
    const { scores, location, posterior } = sequence(model);
    const x = [0.4, scores.length + 0.6];
    const every = scores.length > 12 ? 2 : 1;
    const xTicks = scores.map((_, i) => i + 1).filter((t) => (t - 1) % every === 0);
    const top = above.frame({ x, y: [-3, 8], xTicks, yTicks: [-2, 0, 2, 4, 6, 8] });
    scores.forEach((score, i) => {
      const place = { cx: top.sx(i + 1), cy: top.sy(score), "data-score": score, "data-token": i + 1 };
      top.layer.append(i === location
        ? svg("circle", { ...place, r: 7, style: "fill: var(--slr-linear)" })
        : svg("circle", { ...place, r: 5, style: "fill: none; stroke: var(--slr-ink); stroke-width: 2" }));
    });
    const { layer, sx, sy } = below.frame({ x, y: [0, 1.12], xTicks, yTicks: [0, 0.25, 0.5, 0.75, 1] });
    const width = Math.min((sx(2) - sx(1)) * 0.7, 44);
    posterior.forEach((probability, i) => {
      layer.append(svg("rect", { x: sx(i + 1) - width / 2, y: sy(probability), width,
        height: sy(0) - sy(probability), "data-posterior": probability, "data-token": i + 1,
        class: i === location ? "slr-bar slr-bar-relevant" : "slr-bar",
        style: `fill: var(${i === location ? "--slr-linear" : "--slr-softmax"})` }));
    });
    layer.append(svg("text", { x: sx(location + 1), y: sy(posterior[location]) - 6,
      class: "slr-tick" }, "relevant"));
    const highest = posterior[location] === Math.max(...posterior);
    const error = 1 - posterior.reduce((total, p) => total + p * p, 0);
    const text = (value) => tickLabel(Number(value.toFixed(3)));
    summary.textContent = `Relevant: token ${location + 1}, posterior ${text(posterior[location])} `
      + `(${highest ? "the" : "not the"} highest). Expected squared error: ${text(error)}.`;
    above.describe(`Key scores of ${scores.length} tokens; the relevant one, ${location + 1}, `
      + `has ${text(scores[location])}.`);
    below.describe(`Bars of the location posterior. ${summary.textContent}`);
  }

  function set(name, value) {
    model.set(name, value);
    model.save_changes();
  }
  const controls = {
    task: choice({ label: "task", value: initial.task, options: [["spiked", "spiked"], ["max", "max"]],
      onInput: (value) => set("task", value) }),
    nu: slider({ label: "\u03bd", min: 0, max: 25, step: 0.1, value: initial.nu,
      format: (value) => value.toFixed(1), onInput: (value) => set("nu", value) }),
    length: slider({ label: "L", min: 1, max: 20, step: 1, value: initial.length,
      format: (value) => value.toFixed(0), onInput: (value) => set("length", value) }),
  };
  const next = button("next sequence",
    () => set("sequence", (model.get("sequence") + 1) % model.get("normals").length));
  for (const name of names) {
    model.on(`change:${name}`, () => {
      controls[name]?.set(model.get(name));
      draw();
    });
  }
  el.append(html("div", { class: "slr-figure" },
    html("div", { class: "slr-controls" }, ...Object.values(controls).map((control) => control.node),
      next, resetButton(model, names)), above.node, below.node, summary));
  draw();
}

export default { render };
