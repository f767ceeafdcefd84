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
  sort: "",
  latency: 0.05,
  bandwidth: 1e6,
  gradient: 1e-5,
  experiment: "",
  outcome: "",
  question: "",
  paper: "",
  shown: "0",
};
const NUMBERS = ["latency", "bandwidth", "gradient"]; // of the network that a reader declares
const QUESTIONS = { paper: "claims of papers", ours: "questions of ours" };
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
  return address.toString();
}

// Returns {state, unknown}: names that the address has and this page has not.
function fromAddress(text, atlas, first) {
  const address = new URLSearchParams(text);
  const unknown = [];
  const known = (key, allowed, usual) => {
    const value = address.get(key);
    if (value === null || allowed.includes(value)) return value ?? usual;
    unknown.push(value);
    return usual;
  };
  const number = (key) => {
    const value = Number(address.get(key) || DEFAULTS[key]);
    if (isAllowed(key, value)) return value;
    unknown.push(`${key} ${address.get(key)}`);
    return DEFAULTS[key];
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
    state.chosen = new Set(state.experiment ? atlas.shownBy(state.experiment) : first.chosen);
  }
  const proposed = atlas.propose(state.chosen);
  state.y = known("y", [...atlas.measurements.keys()], proposed.y);
  state.x = known("x", [...atlas.costs.keys()], proposed.x);
  state.points = known("points", ["selected", "all"], DEFAULTS.points);
  state.xs = known("xs", SCALES, DEFAULTS.xs);
  state.ys = known("ys", SCALES, DEFAULTS.ys);
  state.band = known("band", Object.keys(BANDS), DEFAULTS.band);
  const target = Number(address.get("target"));
  state.target = address.get("target") && Number.isFinite(target) ? target : DEFAULTS.target;
  state.sort = known("sort", ["", ...SORTABLE, ...SORTABLE.map((key) => `-${key}`)], DEFAULTS.sort);
  for (const name of NUMBERS) state[name] = number(name);
  const outcomes = atlas.outcomes.map(({ name }) => name);
  state.outcome = known("outcome", ["", ...outcomes], DEFAULTS.outcome);
  state.question = known("question", ["", ...Object.keys(QUESTIONS)], DEFAULTS.question);
  state.paper = known("paper", ["", ...atlas.claimPapers], DEFAULTS.paper);
  state.shown = known("shown", ["0", "1"], DEFAULTS.shown);
  return { state, unknown };
}

// The figure: what Plotly is told.

const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
const SWATCHES = ["", "7 4", "1.5 3", "7 3 1.5 3", "12 5", "12 3 1.5 3"];
// Beyond as many curves ranges cover each other, and take longer to draw than a reader waits.
const RANGES_UP_TO = 24;
// What bands are, as a curve's hover text names them.
const BANDS = { range: "seeds", interval: "95 %", none: "seeds" };
const CONFIG = { responsive: true, displayModeBar: false, doubleClick: "reset" };

function themed() {
  const style = getComputedStyle(document.documentElement);
  const value = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    colours: value("colours").split(" "),
    text: value("text"),
    surface: value("surface"),
    grid: value("grid"),
    edge: value("edge"),
  };
}

// A curve's number decides its colour and, where colours repeat, its dashes.
function styleOf(number, colours) {
  const dash = Math.floor(number / colours.length) % DASHES.length;
  return { colour: colours[number % colours.length], dash: DASHES[dash], swatch: SWATCHES[dash] };
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
  const [title, ...rest] = [entry.label, entry.seeds, entry.hyperParameters];
  const lines = rest.flatMap((text) => wrapped(text, width));
  return [`<b>${wrapped(title, width).map(plain).join("<br>")}</b>`, ...lines.map(plain)].join("<br>");
}

// Curves of one style are one of Plotly's traces, with gaps between them: it takes a fraction of
// the time of a trace for each.
function lineTraces(entries, theme, logarithmic, width, band) {
  const styles = theme.colours.length * DASHES.length;
  const groups = new Map();
  for (const entry of entries) {
    const style = entry.number % styles;
    if (!groups.has(style)) groups.set(style, []);
    groups.get(style).push(entry);
  }
  const ranges = entries.length <= RANGES_UP_TO;
  return [...groups].map(([style, members]) => {
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
    const { colour, dash } = styleOf(style, theme.colours);
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
      hovertemplate: `%{y:.6~g}${range} at %{x:.6~g}<br>%{text}<extra></extra>`,
      hoverlabel: { bordercolor: colour },
    };
  });
}

function rangeTraces(entries, theme, logarithmic) {
  return entries.map(({ curve, number }) => {
    const { colour } = styleOf(number, theme.colours);
    const [x, y] = [[], []];
    const outline = (from, to) => {
      if (x.length) {
        x.push(NaN);
        y.push(NaN);
      }
      for (let i = from; i < to; i++) {
        x.push(curve.x[i]);
        y.push(curve.high[i]);
      }
      for (let i = to - 1; i >= from; i--) {
        x.push(curve.x[i]);
        y.push(curve.low[i]);
      }
    };
    let from = 0;
    for (let i = 0; i <= curve.x.length; i++) {
      const drawn =
        i < curve.x.length &&
        Number.isFinite(curve.low[i]) &&
        Number.isFinite(curve.high[i]) &&
        (!logarithmic.x || curve.x[i] > 0) &&
        (!logarithmic.y || curve.low[i] > 0);
      if (drawn) continue;
      if (i > from) outline(from, i);
      from = i + 1;
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

function axis(title, type, theme, ticks) {
  return {
    title: { text: title, standoff: 8 },
    type,
    color: theme.text,
    gridcolor: theme.grid,
    linecolor: theme.edge,
    zeroline: false,
    exponentformat: type === "log" ? "power" : "SI",
    minexponent: 4,
    // Few enough that decades are not divided where there are several.
    nticks: type === "log" ? ticks : 0,
  };
}

// entries: {curve, number, label, seeds, hyperParameters} of curves that are shown. words: what the
// drawing shows, for who does not see.
function draw(figure, entries, { xTitle, yTitle, logarithmic, band, view, words }) {
  const theme = themed();
  const width = figure.clientWidth < 500 ? 28 : 56;
  const data = lineTraces(entries, theme, logarithmic, width, band);
  if (band !== "none" && entries.length <= RANGES_UP_TO) {
    data.unshift(...rangeTraces(entries, theme, logarithmic));
  }
  const [xLines, yLines] = [xTitle, yTitle].map((text) => wrapped(text, width + 4).map(plain));
  const layout = {
    showlegend: false,
    hovermode: "closest",
    // A finger scrolls the page; a mouse chooses what to look at closely.
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom",
    uirevision: view,
    // Not automatic: Plotly would draw all curves twice.
    margin: { l: 58 + 18 * yLines.length, r: 18, t: 14, b: 34 + 20 * xLines.length },
    paper_bgcolor: theme.surface,
    plot_bgcolor: theme.surface,
    font: { color: theme.text, family: getComputedStyle(document.body).fontFamily, size: 13 },
    hoverlabel: { align: "left", bgcolor: theme.surface, font: { color: theme.text, size: 13 } },
    xaxis: axis(xLines.join("<br>"), logarithmic.x ? "log" : "linear", theme, width < 50 ? 3 : 5),
    yaxis: axis(yLines.join("<br>"), logarithmic.y ? "log" : "linear", theme, 5),
  };
  Plotly.react(figure, data, layout, CONFIG);
  // Curves are in the first of its layers; the others hold what comes and goes.
  const [drawing, ...layers] = figure.querySelectorAll(".main-svg");
  drawing.setAttribute("role", "img");
  drawing.setAttribute("aria-label", words);
  for (const layer of layers) layer.setAttribute("aria-hidden", "true");
}

// The figure as a file, with its legend, which on the page is a list beside it.
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

// What is said of costs where traces lack records. The share was measured on published traces.
const THINNED_COST =
  "Costs are read off straight lines between the records that this page keeps, so they may be some " +
  "10 % off those of whole traces (on a9a up to 13 %).";

function floorNote({ floor }) {
  const least = compact(floor);
  return (
    `≤ ${least}: there or below. The optimum f* is known no better than to ${least}, so values below it ` +
    "are not told apart. A mean over such seeds is an upper bound, too. In the CSV these values equal " +
    "final_floor; seeds_at_floor counts the seeds that end there."
  );
}

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
  let about = new Map(); // a curve's name and what it was run with, by its key
  let pointedAt = null; // the curve that is told about last
  const howTo = byId("about").textContent;
  const tellAbout = () => (byId("about").textContent = about.get(pointedAt) ?? howTo);
  function show(entries) {
    const state = chosen();
    const statistics = statisticsOf(atlas, state.y);
    const { scale } = statistics;
    const isHidden = ({ key }) => state.hidden.has(key);
    const shown = entries.filter((entry) => !isHidden(entry));
    const target = state.target === "" ? proposedTarget(shown, scale) : state.target;
    const other = (point) =>
      state.x === NETWORK && point.ownLatency !== null && point.ownLatency !== state.latency;
    const asked = (point) => ({ ...state, target: other(point) ? "" : target });
    const rows = entries.map((entry) => {
      const { key, run, point, label, diverged, number } = entry;
      const hidden = isHidden(entry);
      return {
        ...(hidden ? {} : numbersOf(point, asked(point), state, statistics)),
        ...{ key, label, diverged, number, hidden, seeds: point.seeds },
        ...{ run: run.name, point: point.name, title: run.title, experiment: run.experiment.name },
        found: `${label} ${run.key} ${run.experiment.dataset}`,
      };
    });
    numbers = { rows, target };
    about = new Map(
      entries.map(({ key, label, seeds, hyperParameters }) => [
        key,
        `${label}: ${seeds}; ${hyperParameters}`,
      ]),
    );
    tellAbout(); // that curve may be gone
    byId("numbers").hidden = rows.length === 0;
    const input = byId("target");
    input.disabled = scale.best === null;
    if (document.activeElement !== input) input.value = target;
    renderRows();
  }

  function renderRows() {
    const state = chosen();
    const { rows, target } = numbers;
    const { scale } = statisticsOf(atlas, state.y);
    const words = byId("numbers-filter").value.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = rows.filter((row) => words.every((word) => row.found.toLowerCase().includes(word)));
    const cost = state.x === NETWORK ? "seconds" : atlas.costs.get(state.x);
    const centre = centreName(state.band, scale);
    const around = state.band === "interval" ? "its 95 % interval" : "range";
    const goal = target === "" ? "target" : `${scale.best === 1 ? "≥" : "≤"} ${compact(target)}`;
    const columns = [["run", "run"], ["final", `final ${centre}`], ["cost", `cost to ${goal}`], ["seeds", "seeds"]];
    const sorted = sortedRows(kept, state.sort);
    fillNumbers(byId("numbers-table"), sorted, columns, state.sort, themed().colours);
    const told = (numbers.told = sorted.filter((row) => !row.hidden));
    const many = kept.length < rows.length ? `${kept.length} of ${counted(rows.length, "row")}. ` : "";
    byId("numbers-about").textContent =
      `${many}Final: ${centre} and, in brackets, ${around} of seeds that did not ` +
      "diverge, at the last record. " +
      (scale.best === null
        ? "No value of this measurement is best, so there is no target."
        : `Cost, in ${cost}: geometric mean over the seeds that reached the target and its 95 % interval.` +
          (atlas.thinned ? ` ${THINNED_COST}` : ""));
    const cutOff = told.some(({ atFloor }) => atFloor > 0);
    byId("floor-note").hidden = !cutOff;
    byId("floor-note").textContent = cutOff ? floorNote(scale) : "";
    const all = state.points === "all";
    const line = pythonLine(atlas.name, told, state.y, pythonCost(), target, all);
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
    else byId("message").textContent = `A target must be ${best === 1 ? "below 1" : floor ? `${floor} or more` : "above 0"}.`;
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
  for (const name of ["focusin", "mouseover"]) {
    byId("numbers-table").addEventListener(name, (event) => {
      const { key } = pressed(event);
      if (!about.has(key)) return;
      pointedAt = key;
      tellAbout();
    });
  }
  byId("save-numbers").addEventListener("click", () => {
    const text = numbersCsv(
      numbers.told,
      chosen().y,
      pythonCost(),
      numbers.target,
      atlas.measurements.get(chosen().y).floor,
    );
    const link = element("a", { download: "atlas.csv" });
    link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
    link.click();
    URL.revokeObjectURL(link.href);
  });
  byId("copy-python").addEventListener("click", () => copy(byId("python").textContent, "Line"));
  return show;
}
