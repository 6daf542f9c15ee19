import { ACTIVATIONS, choice, html, plot, resetButton, slider, svg, tickLabel, weights } from "./common.js";

// One sequence: the weight that attention gives to each token, as the key scale changes.
function render({ model, el }) {
  const scores = model.get("scores");
  const relevant = model.get("relevant");
  const figure = plot({ title: "", xLabel: "token", yLabel: "attention weight" });
  const summary = html("p", { class: "slr-summary", "aria-live": "polite" });

  function draw() {
    const activation = model.get("activation");
    const scale = model.get("scale");
    const values = weights(activation, scores.map((s) => scale * s));
    const normalised = activation === "softmax" || activation === "softplus";
    const low = Math.min(0, ...values);
    const high = normalised ? 1 : Math.max(2, ...values);
    const frame = figure.frame({
      x: [0.4, scores.length + 0.6], y: [low * 1.05, high * 1.1],
      xTicks: scores.map((_, i) => i + 1),
    });
    const { layer, sx, sy } = frame;
    const width = (sx(2) - sx(1)) * 0.7;
    values.forEach((value, i) => {
      const box = { x: sx(i + 1) - width / 2, y: sy(Math.max(value, 0)), width,
        height: Math.abs(sy(value) - sy(0)) };
      layer.append(svg("rect", { ...box, "data-weight": value, "data-token": i + 1,
        class: i === relevant ? "slr-bar slr-bar-relevant" : "slr-bar",
        style: `fill: ${ACTIVATIONS[activation].colour}` }));
      if (i === relevant) {
        layer.append(svg("text", { x: sx(i + 1), y: sy(Math.max(value, 0)) - 6, class: "slr-tick" },
          "needle"));
      }
    });
    const total = values.reduce((a, b) => a + Math.abs(b), 0);
    const share = Math.round((100 * Math.abs(values[relevant])) / total);
    summary.textContent = `With ${ACTIVATIONS[activation].label} attention, the needle (token ${relevant + 1}) has weight `
      + `${tickLabel(Number(values[relevant].toFixed(3)))}: ${share} % of all weight, signs aside.`;
    figure.describe(`Bars of attention weight on ${scores.length} tokens. ${summary.textContent}`);
  }

  function change(name) {
    return (value) => {
      model.set(name, value);
      model.save_changes();
    };
  }
  const scale = slider({ label: "key scale", min: 0, max: 6, step: 0.1, value: model.get("scale"),
    format: (x) => x.toFixed(1), onInput: change("scale") });
  const activation = choice({ label: "activation", value: model.get("activation"),
    options: ["softmax", "linear", "erf", "softplus"].map((key) => [key, ACTIVATIONS[key].label]),
    onInput: change("activation") });
  model.on("change:scale", () => {
    scale.set(model.get("scale"));
    draw();
  });
  model.on("change:activation", () => {
    activation.set(model.get("activation"));
    draw();
  });
  el.append(html("div", { class: "slr-figure" },
    html("div", { class: "slr-controls" }, scale.node, activation.node,
      resetButton(model, ["scale", "activation"])), figure.node, summary));
  draw();
}

export default { render };
