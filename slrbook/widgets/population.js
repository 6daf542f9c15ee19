import { ACTIVATIONS, choice, curve, erf, html, plot, resetButton, slider, svg } from "./common.js";

// The population risk of softmax and linear attention, computed while the reader looks.
// Dividing by a sum of kernels is undone by 1/S = int exp(-t S) dt, which factorises over tokens;
// with u = log t, one token enters through m(u) = E exp(-E), k(u) = E[E exp(-E)] and
// j(u) = E[E^2 exp(-E)], where E = exp(u + score).

const STEP = 0.25;
const LONGEST = Math.log(1e6);

function normalCdf(z) {
  const x = Math.abs(z) / Math.SQRT2;
  let tail;
  if (x < 2.5) {
    tail = 1 - erf(x);
  } else {
    let fraction = 0;
    for (let n = 60; n > 0; n -= 1) fraction = n / 2 / (x + fraction);
    tail = Math.exp(-x * x) / Math.sqrt(Math.PI) / (x + fraction);
  }
  return z < 0 ? tail / 2 : 1 - tail / 2;
}

const normalDensity = (z) => Math.exp((-z * z) / 2) / Math.sqrt(2 * Math.PI);

// One token of score N(0, std^2), on an even grid of u with room for a shift of the score to
// `shift`, which is a whole number of grid steps: a shifted score is a shifted index.
function tokenFactors(std, shift) {
  const offset = Math.max(1, Math.ceil(shift / STEP));
  const step = shift / offset;
  const start = -(12 * std + shift + LONGEST + 30);
  const count = Math.ceil((12 * std + 6 - start) / step);
  const m = new Float64Array(count);
  const rest = new Float64Array(count); // 1 - m
  const k = new Float64Array(count);
  const j = new Float64Array(count);
  if (std < 1) { // smooth in the score: sum over the score
    for (let g = -12; g <= 12; g += STEP) {
      const law = STEP * normalDensity(g);
      for (let i = 0; i < count; i += 1) {
        const e = Math.exp(start + i * step + std * g);
        const alive = law * Math.exp(-e);
        m[i] += alive;
        rest[i] -= law * Math.expm1(-e);
        k[i] += e * alive;
        j[i] += e * e * alive;
      }
    }
  } else { // smooth in u: by parts, E exp(-E) = int exp(v - exp(v)) Phi((v - u) / std) dv
    const below = Math.ceil((LONGEST + 35) / step);
    const window = below + Math.ceil(4 / step) + 1;
    const law = Array.from({ length: window }, (_, n) => {
      const v = (n - below) * step;
      return step * Math.exp(v - Math.exp(v));
    });
    const gain = law.map((_, n) => Math.exp((n - below) * step));
    const size = count + window;
    const cdf = new Float64Array(size);
    const upper = new Float64Array(size);
    const density = new Float64Array(size);
    for (let n = 0; n < size; n += 1) { // at (v - u) = (n - count - below) step - start
      const z = ((n - count - below) * step - start) / std;
      cdf[n] = normalCdf(z);
      upper[n] = normalCdf(-z);
      density[n] = normalDensity(z) / std;
    }
    for (let i = 0; i < count; i += 1) {
      for (let n = 0; n < window; n += 1) {
        const at = count - i + n;
        m[i] += law[n] * cdf[at];
        rest[i] += law[n] * upper[at];
        const part = law[n] * density[at];
        k[i] += part;
        j[i] += part * gain[n];
      }
    }
  }
  const logM = m.map((value, i) => (rest[i] < 0.5 ? Math.log1p(-rest[i]) : Math.log(value)));
  return { step, offset, m, k, j, logM };
}

const power = (logM, exponent) => (exponent > 0 ? Math.exp(exponent * logM) : 1);

// Bayes risk, which softmax attains at the key scale of the posterior.
function softmaxRisk(task, token, length) {
  let sum = 0;
  for (let i = 0; i < token.k.length; i += 1) {
    const other = task === "max" ? token.k[i] : token.m[i + token.offset] ?? 0;
    sum += token.k[i] * other * power(token.logM[i], length - 2);
  }
  return sum * token.step * (length - 1) * (task === "max" ? length : 1);
}

function linearRisk(task, nu, length, bayes) {
  return task === "max" ? 1 - (1 + (nu * bayes) ** 2) / length
    : 1 / (length / (length - 1) + nu / length);
}

// Risk of softmax at the key scale of `token`, with the best value scale, in the spiked task.
function riskAtScale(token, length) {
  let [signal, missed, hit, squares, pairs] = [0, 0, 0, 0, 0];
  for (let i = 0; i < token.k.length; i += 1) {
    const seen = token.m[i + token.offset] ?? 0;
    const rest1 = power(token.logM[i], length - 1);
    const rest2 = power(token.logM[i], length - 2);
    signal += (token.k[i + token.offset] ?? 0) * rest1;
    hit += (token.j[i + token.offset] ?? 0) * rest1;
    missed += token.k[i] * seen * rest2;
    squares += token.j[i] * seen * rest2;
    if (length > 2) pairs += token.k[i] ** 2 * seen * power(token.logM[i], length - 3);
  }
  signal *= token.step;
  missed *= token.step * (length - 1);
  squares *= token.step * (length - 1);
  pairs *= token.step * (length - 1) * (length - 2);
  const total = token.step * hit + squares;
  // 2 squares + pairs = 1 - 2 signal + total, without the cancellation
  const deficit = signal < 0.5 ? total - signal ** 2 : 2 * squares + pairs - missed ** 2;
  return deficit / total;
}

const LENGTHS = [2, 3, 5, 10, 20, 50, 100, 200, 500, 1e3, 1e4, 1e5, 1e6];
const lengthText = (length) => (length < 1e4 ? String(length)
  : `10${{ 4: "⁴", 5: "⁵", 6: "⁶" }[Math.log10(length)]}`);

function lengthSlider(length, onInput) {
  return slider({ label: "length L", min: 0, max: LENGTHS.length - 1, step: 1,
    value: LENGTHS.indexOf(length), format: (i) => lengthText(LENGTHS[i]),
    onInput: (i) => onInput(LENGTHS[i]) });
}

// Numbers of the form 1, 2, 5 times a power of ten between low and high, or the powers alone.
function logTicks(low, high) {
  const powers = Math.log10(high / low) > 2 ? [1] : [1, 2, 5];
  const result = [];
  for (let p = Math.floor(Math.log10(low)); p <= Math.log10(high); p += 1) {
    for (const digit of powers) result.push(Number(`${digit}e${p}`));
  }
  return result.filter((t) => t >= low * 0.999 && t <= high * 1.001);
}

const number = (x) => (x < 1e-3 ? x.toExponential(2).replace("-", "\u2212") : x.toPrecision(4));

function point({ layer, sx, sy }, x, y, name, data) {
  layer.append(svg("circle", { cx: sx(x), cy: sy(y), r: 5.5, ...data,
    style: `fill: ${ACTIVATIONS[name].colour}` }));
}

function legend({ layer, sx, sy }, x, y, name) {
  layer.append(svg("text", { x: sx(x), y: sy(y) - 9, class: "slr-tick",
    style: `fill: ${ACTIVATIONS[name].colour}` }, ACTIVATIONS[name].label));
}

// A model trait that a control shows and the drawing follows.
function bind(model, name, control, draw) {
  model.on(`change:${name}`, () => {
    control.set(model.get(name));
    draw();
  });
}

// Risk against nu for both activations.
const NUS = Array.from({ length: 61 }, (_, i) => 10 ** (i / 20 - 1)); // 0.1 ... 100
const LOWEST = 1e-5;

function renderRisk(model, el) {
  const figure = plot({ title: "", xLabel: "signal strength ν", yLabel: "risk without noise" });
  const summary = html("p", { class: "slr-summary", "aria-live": "polite" });
  const tokens = {}; // per task, computed when first needed

  function factors(task) {
    tokens[task] ??= NUS.map((nu) => tokenFactors(task === "max" ? nu : Math.sqrt(nu), nu));
    return tokens[task];
  }

  function draw() {
    const [task, length] = [model.get("task"), model.get("length")];
    const softmax = factors(task).map((token) => softmaxRisk(task, token, length));
    const linear = NUS.map((nu, i) => linearRisk(task, nu, length, softmax[i]));
    const frame = figure.frame({ x: [0.1, 100], y: [LOWEST, 1.6], xLog: true, yLog: true,
      xTicks: [0.1, 1, 10, 100], yTicks: [1e-5, 1e-4, 1e-3, 0.01, 0.1, 1] });
    const at = model.get("index");
    const nu = NUS[at];
    frame.layer.append(svg("line", { x1: frame.sx(nu), x2: frame.sx(nu), y1: frame.sy(1.6),
      y2: frame.sy(LOWEST), class: "slr-zero", "stroke-dasharray": "2 4" }));
    for (const [name, risks] of [["linear", linear], ["softmax", softmax]]) {
      const seen = NUS.map((x, i) => [x, risks[i]]).filter(([, risk]) => risk >= LOWEST);
      curve(frame, seen, ACTIVATIONS[name]);
      if (risks[at] >= LOWEST) point(frame, nu, risks[at], name, {});
    }
    figure.node.dataset.softmax = softmax[at];
    figure.node.dataset.linear = linear[at];
    figure.node.dataset.nu = nu;
    summary.textContent = `ν = ${nu.toPrecision(3)}, L = ${lengthText(length)}: `
      + `softmax ${number(softmax[at])} (solid line), linear ${number(linear[at])} (dashed line).`;
    figure.describe(`Risk against signal strength on two logarithmic axes. ${summary.textContent}`);
  }

  function change(name) {
    return (value) => {
      model.set(name, value);
      model.save_changes();
    };
  }
  const task = choice({ label: "task", value: model.get("task"), onInput: change("task"),
    options: [["spiked", "spiked"], ["max", "max"]] });
  const length = lengthSlider(model.get("length"), change("length"));
  const nu = slider({ label: "signal ν", min: 0, max: NUS.length - 1, step: 1,
    value: model.get("index"), format: (i) => NUS[i].toPrecision(3), onInput: change("index") });
  bind(model, "task", task, draw);
  bind(model, "length", { set: (value) => length.set(LENGTHS.indexOf(value)) }, draw);
  bind(model, "index", nu, draw);
  el.append(html("div", { class: "slr-figure" },
    html("div", { class: "slr-controls" }, task.node, length.node, nu.node,
      resetButton(model, ["task", "length", "index"])), figure.node, summary));
  draw();
}

// Risk of softmax against its key scale, in units of the posterior's.
const RATIOS = Array.from({ length: 73 }, (_, i) => 2 ** ((i - 36) / 12)); // 1/8 ... 8

function renderTemperature(model, el) {
  const figure = plot({ title: "", xLabel: "key scale in units of √ν",
    yLabel: "risk without noise" });
  const summary = html("p", { class: "slr-summary", "aria-live": "polite" });
  let cached = null;

  function risks(nu, length) {
    if (cached?.nu !== nu) {
      const tokens = RATIOS.map((ratio) => tokenFactors(ratio * Math.sqrt(nu), ratio * nu));
      cached = { nu, tokens };
    }
    return cached.tokens.map((token) => riskAtScale(token, length));
  }

  function draw() {
    const [nu, length, at] = [model.get("nu"), model.get("length"), model.get("index")];
    const softmax = risks(nu, length);
    const best = softmax[36];
    const linear = linearRisk("spiked", nu, length);
    const low = best * 0.8;
    const frame = figure.frame({ x: [1 / 8, 8], y: [low, 1.1], xLog: true, yLog: true,
      xTicks: [0.125, 0.25, 0.5, 1, 2, 4, 8], yTicks: logTicks(low, 1.1) });
    frame.layer.append(svg("line", { x1: frame.sx(1), x2: frame.sx(1), y1: frame.sy(1.1),
      y2: frame.sy(low), class: "slr-zero", "stroke-dasharray": "2 4" }));
    curve(frame, [[1 / 8, linear], [8, linear]], ACTIVATIONS.linear);
    curve(frame, RATIOS.map((ratio, i) => [ratio, softmax[i]]), ACTIVATIONS.softmax);
    point(frame, RATIOS[at], softmax[at], "softmax", {});
    legend(frame, 5.5, linear, "linear");
    Object.assign(figure.node.dataset, { best, linear, ratio: RATIOS[at], risk: softmax[at] });
    const excess = 100 * (softmax[at] / best - 1);
    // of about the same length at all positions, so that the figure keeps its height
    const rank = softmax[at] > linear ? "worse" : "better";
    summary.textContent = `Risk ${number(softmax[at])}: ${excess.toFixed(excess < 10 ? 1 : 0)} % `
      + `above Bayes (${number(best)}), ${rank} than linear (${number(linear)}).`;
    figure.describe(`Risk of softmax attention against its key scale, with its minimum at √ν, `
      + `for ν = ${nu}, L = ${lengthText(length)}. At ${RATIOS[at].toFixed(2)} √ν: `
      + summary.textContent);
  }

  function change(name) {
    return (value) => {
      model.set(name, value);
      model.save_changes();
    };
  }
  const ratio = slider({ label: "key scale / √ν", min: 0, max: RATIOS.length - 1, step: 1,
    value: model.get("index"), format: (i) => RATIOS[i].toFixed(2), onInput: change("index") });
  const nu = slider({ label: "signal ν", min: 0.5, max: 30, step: 0.5, value: model.get("nu"),
    format: (x) => x.toFixed(1), onInput: change("nu") });
  const length = lengthSlider(model.get("length"), change("length"));
  bind(model, "index", ratio, draw);
  bind(model, "nu", nu, draw);
  bind(model, "length", { set: (value) => length.set(LENGTHS.indexOf(value)) }, draw);
  el.append(html("div", { class: "slr-figure" },
    html("div", { class: "slr-controls" }, ratio.node, nu.node, length.node,
      resetButton(model, ["index", "nu", "length"])), figure.node, summary));
  draw();
}

function render({ model, el }) {
  if (model.get("view") === "risk") renderRisk(model, el);
  else renderTemperature(model, el);
}

export default { render };
