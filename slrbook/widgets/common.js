// What every interactive figure of the book shares: controls, axes, colours, numbers.
// A figure's module imports from here. In Jupyter, Python joins both into one text.

const SVG = "http://www.w3.org/2000/svg";

// Colour and dash of each activation, the same in every figure (see slrbook/figures.py).
export const ACTIVATIONS = {
  softmax: { label: "softmax", colour: "var(--slr-softmax)", dash: "" },
  linear: { label: "linear", colour: "var(--slr-linear)", dash: "7 3" },
  erf: { label: "erf", colour: "var(--slr-erf)", dash: "2 3" },
  softplus: { label: "softplus", colour: "var(--slr-softplus)", dash: "9 3 2 3" },
  bayes: { label: "Bayes", colour: "var(--slr-bayes)", dash: "" },
};

export function html(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

let count = 0;
function freshId(stem) {
  count += 1;
  return `slr-${stem}-${count}`;
}

// A labelled slider with its value beside it. Returns { node, get, set }.
export function slider({ label, min, max, step, value, format = (x) => x.toFixed(2), onInput }) {
  const id = freshId("slider");
  const output = html("output", { for: id, class: "slr-value" });
  const input = html("input", { type: "range", id, min, max, step, value });
  const show = () => {
    output.textContent = format(Number(input.value));
    input.setAttribute("aria-valuetext", output.textContent);
  };
  input.addEventListener("input", () => {
    show();
    onInput(Number(input.value));
  });
  show();
  return {
    node: html("div", { class: "slr-control" }, html("label", { for: id }, label), input, output),
    get: () => Number(input.value),
    set: (next) => {
      input.value = next;
      show();
    },
  };
}

// A labelled drop-down list of [value, text] pairs. Returns { node, get, set }.
export function choice({ label, options, value, onInput }) {
  const id = freshId("choice");
  const select = html("select", { id },
    ...options.map(([key, text]) => html("option", { value: key }, text)));
  select.value = value;
  select.addEventListener("change", () => onInput(select.value));
  return {
    node: html("div", { class: "slr-control" }, html("label", { for: id }, label), select),
    get: () => select.value,
    set: (next) => {
      select.value = next;
    },
  };
}

export function button(label, onClick) {
  const node = html("button", { type: "button", class: "slr-button" }, label);
  node.addEventListener("click", onClick);
  return node;
}

// A button that takes the named parts of the model back to where they started.
export function resetButton(model, names) {
  const initial = Object.fromEntries(names.map((name) => [name, model.get(name)]));
  return button("reset", () => {
    for (const name of names) model.set(name, initial[name]);
    model.save_changes();
  });
}

// Round numbers that cut [low, high] into at most `most` intervals.
export function ticks(low, high, most = 5) {
  const raw = (high - low) / most;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw * (1 - 1e-9));
  const first = Math.ceil(low / step - 1e-9);
  const result = [];
  for (let i = first; i * step <= high + 1e-9 * step; i += 1) result.push(i * step);
  return result;
}

export function tickLabel(value) {
  const size = Math.abs(value);
  if (value === 0 || (size >= 1e-3 && size < 1e4)) {
    return String(Number(value.toPrecision(6))).replace("-", "\u2212");
  }
  const [digits, power] = value.toExponential().split("e");
  const raised = [...power.replace("+", "")].map((sign) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[sign] ?? "⁻").join("");
  const factor = Number(Number(digits).toPrecision(3));
  return `${factor === 1 ? "" : `${factor}\u00D7`}10${raised}`.replace("-", "\u2212");
}

// A plotting area of fixed aspect ratio that fills the width it is given.
// `draw(frame)` may be called again and again: the drawing is replaced, the frame stays.
export function plot({ title, xLabel, yLabel, width = 480, height = 290,
  margin = { left: 68, right: 12, top: 12, bottom: 50 } }) {
  const titleId = freshId("title");
  const node = svg("svg", {
    viewBox: `0 0 ${width} ${height}`, class: "slr-plot", role: "img", "aria-labelledby": titleId,
  });
  const heading = svg("title", { id: titleId }, title);
  const layer = svg("g");
  node.append(heading, layer,
    svg("text", { x: (margin.left + width - margin.right) / 2, y: height - 8, class: "slr-label" }, xLabel),
    svg("text", {
      transform: `translate(16 ${(margin.top + height - margin.bottom) / 2}) rotate(-90)`,
      class: "slr-label",
    }, yLabel));
  const scale = (domain, range, log) => (value) => {
    const f = log ? Math.log : (x) => x;
    return range[0] + ((f(value) - f(domain[0])) / (f(domain[1]) - f(domain[0]))) * (range[1] - range[0]);
  };
  return {
    node,
    describe: (text) => {
      heading.textContent = text;
    },
    // Clears the drawing and returns the scales of new axes and the layer to draw on.
    frame({ x, y, xTicks = null, yTicks = null, xLog = false, yLog = false }) {
      layer.replaceChildren();
      const sx = scale(x, [margin.left, width - margin.right], xLog);
      const sy = scale(y, [height - margin.bottom, margin.top], yLog);
      for (const t of yTicks ?? ticks(y[0], y[1])) {
        layer.append(
          svg("line", { x1: margin.left, x2: width - margin.right, y1: sy(t), y2: sy(t),
            class: t === 0 ? "slr-zero" : "slr-grid" }),
          svg("text", { x: margin.left - 7, y: sy(t) + 5, class: "slr-tick slr-end" }, tickLabel(t)));
      }
      for (const t of xTicks ?? ticks(x[0], x[1])) {
        layer.append(svg("text", { x: sx(t), y: height - margin.bottom + 19, class: "slr-tick" },
          tickLabel(t)));
      }
      return { layer, sx, sy };
    },
  };
}

// A curve through [x, y] points in the coordinates of a frame.
export function curve({ layer, sx, sy }, points, { colour, dash = "", width = 2.5 }) {
  const path = points.map(([px, py], i) => `${i ? "L" : "M"}${sx(px).toFixed(2)} ${sy(py).toFixed(2)}`);
  const node = svg("path", { d: path.join(""), class: "slr-curve", "stroke-dasharray": dash,
    "stroke-width": width, style: `stroke: ${colour}` });
  layer.append(node);
  return node;
}

// The error function: series near zero, continued fraction of erfc beyond.
export function erf(x) {
  const a = Math.abs(x);
  if (a < 2.5) {
    let term = a;
    let sum = a;
    for (let n = 1; Math.abs(term) > 1e-17 * sum; n += 1) {
      term *= (-a * a) / n;
      sum += term / (2 * n + 1);
    }
    return (Math.sign(x) * 2 * sum) / Math.sqrt(Math.PI);
  }
  let fraction = 0;
  for (let n = 60; n > 0; n -= 1) fraction = n / 2 / (a + fraction);
  return Math.sign(x) * (1 - Math.exp(-a * a) / Math.sqrt(Math.PI) / (a + fraction));
}

// The attention weights of the book's four activations.
export function weights(activation, scores) {
  if (activation === "linear") return scores.map((s) => 1 + s);
  if (activation === "erf") return scores.map((s) => 1 + erf(s));
  const top = Math.max(...scores);
  const kernel = activation === "softmax"
    ? scores.map((s) => Math.exp(s - top))
    : scores.map((s) => Math.max(s, 0) + Math.log1p(Math.exp(-Math.abs(s))));
  const sum = kernel.reduce((a, b) => a + b, 0);
  return kernel.map((k) => k / sum);
}
