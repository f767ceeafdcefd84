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
