// What is chosen, and how it stands in the page's address.
//
// Other pages link to `#experiment=NAME`: the claims of that experiment alone, and its curves, which
// may be runs of another experiment. `show` (an experiment or experiment/run, repeatable) chooses
// other curves; all else that is not named is as at first, or as suits what is chosen.

const DEFAULTS = {
  points: "selected",
  xs: "auto",
  ys: "auto",
  band: "range",
  target: "",
  sort: "cost",
  experiment: "",
  outcome: "",
  question: "",
  paper: "",
  shown: "0",
};
const NETWORK_AT_FIRST = { latency: 0.05, bandwidth: 1e6, gradient: 1e-5 };
const NUMBERS = ["latency", "bandwidth", "gradient"]; // of the network that a reader declares
const QUESTIONS = { paper: "claims of papers", ours: "own questions" };
// What boxes choose: without and with their tick.
const CHECKED = { points: ["selected", "all"], shown: ["0", "1"] };
const SCALES = ["auto", "linear", "log"];

function isAllowed(name, value) {
  return Number.isFinite(value) && (name === "bandwidth" ? value > 0 : value >= 0);
}

// The state as text: whole experiments by their name, others by experiment/run.
function toAddress(state, experiments) {
  const address = new URLSearchParams();
  for (const experiment of experiments) {
    const chosen = experiment.runs.filter((run) => state.chosen.has(run.key));
    if (chosen.length === experiment.runs.length) address.append("show", experiment.name);
    else for (const run of chosen) address.append("show", run.key);
  }
  if (!address.has("show")) address.append("show", "");
  for (const key of state.hidden) address.append("off", key);
  address.set("y", state.y);
  address.set("x", state.x);
  for (const [key, usual] of Object.entries(DEFAULTS)) {
    if (String(state[key]) !== String(usual)) address.set(key, state[key]);
  }
  if (state.x === NETWORK) for (const name of NUMBERS) address.set(name, state[name]);
  return address.toString();
}

// Returns {state, unknown}: names that the address has and this page has not.
function fromAddress(text, atlas) {
  const address = new URLSearchParams(text);
  const unknown = [];
  const known = (key, allowed, usual) => {
    const value = address.get(key);
    if (value === null || allowed.includes(value)) return value ?? usual;
    unknown.push(value);
    return usual;
  };
  const number = (key, usual) => {
    const value = Number(address.get(key) || usual);
    if (isAllowed(key, value)) return value;
    unknown.push(`${key} ${address.get(key)}`);
    return usual;
  };
  const state = { chosen: new Set(), hidden: new Set() };
  for (const name of address.getAll("show")) {
    const keys = atlas.runs.has(name) ? [name] : atlas.shownBy(name);
    for (const key of keys) state.chosen.add(key);
    if (name && !keys.length) unknown.push(name);
  }
  for (const key of address.getAll("off")) {
    if (atlas.points.has(key)) state.hidden.add(key);
    else unknown.push(key);
  }
  state.experiment = known("experiment", ["", ...atlas.names], DEFAULTS.experiment);
  if (!address.has("show")) {
    state.chosen = new Set(state.experiment ? atlas.shownBy(state.experiment) : firstChosen(atlas));
  }
  const proposed = { ...DEFAULTS, ...atlas.propose(state.chosen) };
  const allowed = {
    y: [...atlas.measurements.keys()],
    x: [...atlas.costs.keys()],
    points: CHECKED.points,
    xs: SCALES,
    ys: SCALES,
    band: Object.keys(BANDS),
    sort: SORTABLE.flatMap((key) => [key, `-${key}`]),
    outcome: ["", ...atlas.outcomes.map(({ name }) => name)],
    question: ["", ...Object.keys(QUESTIONS)],
    paper: ["", ...atlas.claimPapers],
    shown: CHECKED.shown,
  };
  for (const [key, values] of Object.entries(allowed)) state[key] = known(key, values, proposed[key]);
  const target = Number(address.get("target"));
  state.target = address.get("target") && Number.isFinite(target) ? target : "";
  for (const name of NUMBERS) state[name] = number(name, proposed.network[name]);
  return { state, unknown };
}

// The figure: what Plotly is told.

// Dashes of lines, as Plotly and as SVG name them.
const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const SWATCHES = ["", "7 4", "1.5 3", "7 3 1.5 3", "12 5", "12 3 1.5 3"];
// A legend of more is longer than the figure; the table has it, too.
const LEGEND_UP_TO = 16;
// Beyond as many curves ranges cover each other, and take longer to draw than a reader waits.
const RANGES_UP_TO = 24;
// What bands are, as a curve's hover text names them.
const BANDS = { range: "seeds", interval: "95 %", none: "seeds" };
const CONFIG = { responsive: true, displayModeBar: false, doubleClick: "reset" };

function themed({ schemes }) {
  const style = getComputedStyle(document.documentElement);
  const names = ["text", "surface", "grid", "edge", "accent"];
  const scheme = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  const values = names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]);
  return { ...Object.fromEntries(values), ...schemes[scheme] };
}

// Give entries their look. As in figures, a method has its colour in every view; one that has none,
// or whose colour is taken, the next that is free. Variants of it differ by dashes; where there is
// nothing else, by a sequence from dark to light.
function style(entries, { methods }, { named, sequence }) {
  const variants = Map.groupBy(entries, ({ point }) => point.algorithm);
  const taken = new Map();
  for (const method of variants.keys()) {
    const name = methods[method];
    if (name && ![...taken.values()].includes(name)) taken.set(method, name);
  }
  const free = Object.keys(named).filter((name) => ![...taken.values()].includes(name));
  let next = 0;
  for (const [method, own] of variants) {
    const name = taken.get(method) ?? free[next++ % free.length];
    const colours = variants.size === 1 && own.length > 3 ? sequence : [named[name]];
    const spread = own.length < colours.length ? (colours.length - 1) / (own.length - 1) : 1;
    own.forEach((entry, place) => {
      const dash = Math.floor(place / colours.length) % DASHES.length;
      const colour = colours[Math.round(place * spread) % colours.length];
      Object.assign(entry, { colour, dash: DASHES[dash], swatch: SWATCHES[dash] });
    });
  }
}

// Plotly reads a few tags and %{…} in texts: a trace's are data.
function plain(text) {
  const entities = { "&": "&amp;", "<": "&lt;", ">": "&gt;", "%": "&#37;" };
  return String(text).replace(/[&<>%]/g, (letter) => entities[letter]);
}

function wrapped(text, width) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const last = lines[lines.length - 1];
    if (last && last.length + word.length >= width) lines.push(word);
    else lines[lines.length - 1] = last ? `${last} ${word}` : word;
  }
  return lines;
}

function hoverText(entry, width) {
  const [title, ...rest] = [entry.label, entry.seeds, entry.settings];
  const lines = rest.flatMap((text) => wrapped(text, width));
  return [`<b>${wrapped(title, width).map(plain).join("<br>")}</b>`, ...lines.map(plain)].join("<br>");
}

// Curves of one style are one of Plotly's traces, with gaps between them: it takes a fraction of
// the time of a trace for each.
function lineTraces(entries, logarithmic, width, band, unit) {
  const groups = Map.groupBy(entries, ({ colour, dash }) => colour + dash);
  const ranges = entries.length <= RANGES_UP_TO;
  return [...groups.values()].map((members) => {
    const length = members.reduce((sum, { curve }) => sum + curve.x.length + 1, 0);
    const [x, y, text] = [new Float64Array(length), new Float64Array(length), new Array(length)];
    const customdata = ranges ? new Array(length) : undefined;
    let place = 0;
    for (const { curve, ...entry } of members) {
      const label = hoverText(entry, width);
      for (let i = 0; i < curve.x.length; i++, place++) {
        const drawn = !(logarithmic.y && curve.centre[i] <= 0) && !(logarithmic.x && curve.x[i] <= 0);
        x[place] = curve.x[i];
        y[place] = drawn ? curve.centre[i] : NaN;
        text[place] = label;
        if (ranges) customdata[place] = [curve.low[i], curve.high[i]];
      }
      x[place] = y[place] = NaN;
      place++;
    }
    const [{ colour, dash }] = members;
    const range = ranges ? ` (${BANDS[band]} %{customdata[0]:.4~g} to %{customdata[1]:.4~g})` : "";
    const others = members.length > 1 ? ` and ${members.length - 1} more` : "";
    return {
      type: "scatter",
      mode: "lines",
      name: plain(members[0].label + others),
      x,
      y,
      text,
      customdata,
      line: { color: colour, dash, width: entries.length > RANGES_UP_TO ? 1.3 : 2 },
      hovertemplate: `%{y:.6~g}${range} at %{x:.4~s}${unit}<br>%{text}<extra></extra>`,
      hoverlabel: { bordercolor: colour },
    };
  });
}

function rangeTraces(entries, logarithmic) {
  return entries.map(({ curve, colour }) => {
    const isDrawn = (i) =>
      Number.isFinite(curve.low[i] + curve.high[i]) &&
      (!logarithmic.x || curve.x[i] > 0) &&
      (!logarithmic.y || curve.low[i] > 0);
    const [x, y, part] = [[], [], []];
    for (let i = 0; i <= curve.x.length; i++) {
      if (i < curve.x.length && isDrawn(i)) part.push(i);
      else if (part.length) {
        // Along the upper edge and back along the lower one; outlines have gaps between them.
        const back = part.toReversed();
        if (x.length) for (const values of [x, y]) values.push(NaN);
        x.push(...[...part, ...back].map((at) => curve.x[at]));
        y.push(...part.map((at) => curve.high[at]), ...back.map((at) => curve.low[at]));
        part.length = 0;
      }
    }
    return {
      type: "scatter",
      mode: "lines",
      x,
      y,
      fill: "toself",
      fillcolor: `${colour}26`,
      line: { color: `${colour}66`, width: 0.5 },
      hoverinfo: "skip",
      showlegend: false,
    };
  });
}

function axis(title, type, theme, more) {
  return {
    title: { text: title, standoff: 8 },
    type,
    color: theme.text,
    gridcolor: theme.grid,
    linecolor: theme.edge,
    zeroline: false,
    minexponent: 4,
    ...more,
  };
}

function around({ surface, text }, margin) {
  const font = { color: text, family: getComputedStyle(document.body).fontFamily, size: 13 };
  return { margin, font, paper_bgcolor: surface, plot_bgcolor: surface };
}

// The target as a line across, with its value.
function targetLine(target, logarithmic, theme) {
  if (target === "" || (logarithmic && target <= 0)) return {};
  const line = { color: theme.edge, width: 1.5, dash: "dot" };
  const at = { xref: "paper", x: 1, y: logarithmic ? Math.log10(target) : target };
  const told = { text: `target ${compact(target)}`, showarrow: false, xanchor: "right", yanchor: "bottom", bgcolor: theme.surface };
  return {
    shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: target, y1: target, line, layer: "below" }],
    annotations: [{ ...at, ...told }],
  };
}

// entries: {curve, label, seeds, settings} with their look, of curves that are shown. words:
// what the drawing shows, for who does not see.
function draw(figure, entries, theme, { xTitle, yTitle, unit, target, logarithmic, band, view, words }) {
  const narrow = figure.clientWidth < 500;
  const width = narrow ? 28 : 56;
  const data = lineTraces(entries, logarithmic, width, band, unit);
  if (band !== "none" && entries.length <= RANGES_UP_TO) {
    data.unshift(...rangeTraces(entries, logarithmic));
  }
  const [xLines, yLines] = [xTitle, yTitle].map((text) => wrapped(text, width + 4).map(plain));
  const kinds = [logarithmic.x, logarithmic.y].map((is) => (is ? "log" : "linear"));
  // Few enough ticks that decades are not divided where there are several.
  const ticks = kinds.map((kind) => (kind === "log" ? (narrow ? 3 : 5) : 0));
  const layout = {
    // On a phone the table below has the room.
    showlegend: !narrow && entries.length > 1 && entries.length <= LEGEND_UP_TO,
    legend: { itemclick: false, itemdoubleclick: false, font: { size: 12 } },
    hovermode: "closest",
    // A finger scrolls the page; a mouse chooses what to look at closely.
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    uirevision: view,
    // Not automatic: Plotly would draw all curves twice.
    ...around(theme, { l: 58 + 18 * yLines.length, r: 18, t: 14, b: 34 + 20 * xLines.length }),
    hoverlabel: { align: "left", bgcolor: theme.surface, font: { color: theme.text, size: 13 } },
    xaxis: axis(xLines.join("<br>"), kinds[0], theme, { exponentformat: "SI", ticksuffix: unit, nticks: ticks[0] }),
    yaxis: axis(yLines.join("<br>"), kinds[1], theme, { exponentformat: "power", nticks: ticks[1] }),
    ...targetLine(target, logarithmic.y, theme),
  };
  plot(figure, data, layout, words);
}

function plot(figure, data, layout, words) {
  Plotly.react(figure, data, layout, CONFIG);
  // Curves are in the first of its layers; the others hold what comes and goes.
  const [drawing, ...layers] = figure.querySelectorAll(".main-svg");
  drawing.setAttribute("role", "img");
  drawing.setAttribute("aria-label", words);
  for (const layer of layers) layer.setAttribute("aria-hidden", "true");
}

// A map of pairs of runs: what the first spends over what the second does, by their networks.
// spent: run → cost. names: of both. Returns what it shows in a sentence.
function drawMap(figure, { across, up, cells }, spent, names, theme, words) {
  const ratios = up.map(() => across.map(() => NaN));
  for (const { runs, row, column } of cells) {
    const [first, second] = runs.map((run) => spent.get(run) ?? Infinity);
    ratios[row][column] = first / second;
  }
  const each = (told) => ratios.map((row) => row.map(told));
  const data = {
    type: "heatmap",
    x: [0, 1].map((level) => across.map((names) => names[level])),
    y: [0, 1].map((level) => up.map((names) => names[level])),
    z: each((ratio) => Math.max(-2, Math.min(2, Math.log2(ratio)))),
    text: each((ratio) => (Number.isFinite(ratio) ? ratio.toPrecision(2) : "–")),
    texttemplate: "%{text}",
    ...{ zmin: -2, zmax: 2, xgap: 1, ygap: 1 },
    colorscale: [[0, theme.named.blue], [0.5, "#f4f4f4"], [1, theme.named.vermilion]],
    colorbar: { tickvals: [-2, -1, 0, 1, 2], ticktext: ["¼", "½", "1", "2", "4"] },
    hovertemplate: `${plain(names.join(" / "))}: %{text}<br>latency %{x}<br>spread %{y}<extra></extra>`,
  };
  const layout = {
    ...around(theme, { l: 125, r: 10, t: 14, b: 90 }),
    xaxis: axis("latency of a message, over the time of a feature", "multicategory", theme),
    yaxis: axis("spread of times", "multicategory", theme),
  };
  plot(figure, [data], layout, words);
  const known = ratios.flat().filter(Number.isFinite);
  const ends = [Math.min(...known), Math.max(...known)].map((ratio) => ratio.toPrecision(3));
  const less = known.filter((ratio) => ratio < 1).length;
  return (
    `${names[0]} spends ${ends.join(" to ")} times what ${names[1]} does: less on ${less} of ` +
    `${counted(cells.length, "network")}. Choose fewer runs to see their curves.`
  );
}

// The figure as a file, with the legend of all its curves.
function save(figure) {
  const legend = { orientation: "h", y: -0.2, yanchor: "top" };
  const layout = { ...figure.layout, showlegend: true, legend };
  const size = { width: figure.clientWidth, height: figure.clientHeight + 120 };
  return Plotly.downloadImage(
    { data: figure.data, layout },
    { format: "svg", filename: "atlas", ...size },
  );
}

// The panel of the legend and numbers, which follows the figure and asks for changes of what is
// chosen.

// What statistics of a measurement need: how it is summed up, and Student's t.
function statisticsOf(atlas, measurement) {
  return { scale: atlas.measurements.get(measurement), quantiles: atlas.quantiles };
}

// A run with a clock of its own has no cost under another latency.
function asked(point, state, target) {
  const other = state.x === NETWORK && point.ownLatency !== null && point.ownLatency !== state.latency;
  return { ...state, target: other ? "" : target };
}

// What is said of costs where traces lack records. The share was measured on published traces.
function thinnedNote(records) {
  return (
    `Traces are thinned: each keeps at most ${records} records. Costs are read off straight lines between ` +
    "them, so they may be some 10 % off those of whole traces (on a9a up to 13 %)."
  );
}

const UNLIKE =
  "Some of these runs are asynchronous: their updates are not rounds of others, so the numbers do not compare.";

// chosen: returns what is chosen. change: changes it. copy: puts a text on the clipboard. Returns
// what shows the rows of entries, curves that are shown or hidden.
function numbersPanel(atlas, chosen, change, copy) {
  // The cost as Python names it. Rounds of parties that wait for nobody are their exchanges.
  function pythonCost() {
    const state = chosen();
    if (state.x === "round") return "exchanges";
    if (state.x !== NETWORK) return state.x;
    return `network(${NUMBERS.map((name) => `${name}=${compact(state[name])}`).join(", ")})`;
  }

  let numbers = { rows: [], target: "" };
  // entries: curves with their look. target: what runs shall reach.
  // map: what it shows, in words.
  function show({ entries, target, map }) {
    const state = chosen();
    const statistics = statisticsOf(atlas, state.y);
    const rows = entries.map(({ key, run, point, label, diverged, settings, ...look }) => {
      const hidden = state.hidden.has(key);
      return {
        ...(hidden ? {} : numbersOf(point, asked(point, state, target), state, statistics)),
        ...{ key, label, diverged, settings, hidden, seeds: point.seeds },
        ...{ colour: look.colour, swatch: look.swatch, asynchronous: point.ownLatency !== null },
        ...{ run: run.name, point: point.name, title: run.title, experiment: run.experiment.name },
        found: `${label} ${run.key} ${run.experiment.dataset}`,
      };
    });
    numbers = { rows, target, map };
    byId("numbers").hidden = rows.length === 0;
    const input = byId("target");
    input.disabled = statistics.scale.best === null;
    if (document.activeElement !== input) input.value = target;
    renderRows();
  }

  function renderRows() {
    const state = chosen();
    const { rows, target, map } = numbers;
    const { scale } = statisticsOf(atlas, state.y);
    const words = byId("numbers-filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = rows.filter((row) => words.every((word) => row.found.toLowerCase().includes(word)));
    const { label, unit } = atlas.costs.get(state.x);
    const centre = centreName(state.band, scale);
    const around = state.band === "interval" ? "its 95 % interval" : "range";
    const goal = target === "" ? "target" : `${scale.best === 1 ? "≥" : "≤"} ${compact(target)}`;
    const cost = label.replace(/ \(.*/, "");
    const columns = [["run", "run"], ["final", `final ${centre}`], ["cost", `cost to ${goal}`], ["seeds", "seeds"]];
    const sorted = sortedRows(kept, state.sort);
    fillNumbers(byId("numbers-table"), sorted, columns, state.sort, unit);
    const told = (numbers.told = sorted.filter((row) => !row.hidden));
    const unlike = state.x === "round" && new Set(told.map((row) => row.asynchronous)).size > 1;
    const asked = { cost, target: `${scale.label} ${goal}` };
    byId("answer").replaceChildren(...(map ? [map] : unlike ? [UNLIKE] : answer(told, asked, unit)));
    const many = kept.length < rows.length ? `${kept.length} of ${counted(rows.length, "row")}. ` : "";
    byId("numbers-about").textContent =
      `${many}Press a name to hide or show its curve. Final: ${centre} and, in brackets, ${around} of ` +
      "seeds that did not diverge, at the last record. " +
      (scale.best === null
        ? "No value of this measurement is best, so there is no target."
        : `Cost, in ${cost}: geometric mean over the seeds that reached the target and its 95 % interval.` +
          (atlas.thinned ? ` ${thinnedNote(atlas.thinned)}` : ""));
    const all = state.points === "all";
    const line = pythonLine(atlas.atlas, told, state.y, pythonCost(), target, all);
    byId("python").firstElementChild.textContent =
      line === null ? "There is no such line without a target." : `import fedatlas\n${line}`;
    byId("copy-python").disabled = line === null;
  }

  byId("target").addEventListener("change", ({ target }) => {
    const { best, floor } = atlas.measurements.get(chosen().y);
    const value = target.valueAsNumber;
    const valid = best === 1 ? value < 1 : value > 0 && value >= floor;
    target.setAttribute("aria-invalid", String(!valid && target.value !== ""));
    if (valid || target.value === "") change({ target: valid ? value : "" }, { choice: false, claims: false });
    else tell(`A target must be ${best === 1 ? "below 1" : floor ? `${floor} or more` : "above 0"}.`);
  });
  byId("numbers-filter").addEventListener("input", renderRows);
  const pressed = ({ target }) => target.closest("button")?.dataset ?? {};
  byId("numbers-table").addEventListener("click", (event) => {
    const { sort: column, key } = pressed(event);
    if (column !== undefined) {
      const sort = chosen().sort === column ? `-${column}` : column;
      change({ sort }, { choice: false, figure: false, claims: false });
      renderRows();
    } else if (key !== undefined) {
      const hidden = new Set(chosen().hidden);
      if (!hidden.delete(key)) hidden.add(key);
      change({ hidden }, { choice: false, claims: false });
    }
  });
  byId("save-numbers").addEventListener("click", () => {
    const { y } = chosen();
    const { floor } = atlas.measurements.get(y);
    const text = numbersCsv(numbers.told, y, pythonCost(), numbers.target, floor);
    const link = element("a", { download: "atlas.csv" });
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.click();
    URL.revokeObjectURL(link.href);
  });
  byId("copy-python").addEventListener("click", () => copy(byId("python").textContent, "Line"));
  return show;
}
