// What the page holds in compressed form, and what scripts beside it hold.

async function unpacked(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream);
}

async function loadLibrary() {
  const element = document.createElement("script");
  element.textContent = await (await unpacked(document.getElementById("library").textContent)).text();
  document.head.append(element);
  return globalThis.Plotly;
}

// A page that is opened as a file may read nothing beside it, but may run a script, which hands
// over what it holds.
const expected = new Map();
globalThis.hand = (name, text) => expected.get(name)?.(text);

function textOf(folder, name) {
  return new Promise((resolve, reject) => {
    const element = document.createElement("script");
    const file = `${folder}/${name}.js`;
    const fail = () => reject(new Error(`${file} could not be read: keep it beside this page`));
    expected.set(name, resolve);
    element.src = file;
    element.onerror = fail;
    element.onload = fail; // comes after its text, unless the script holds something else
    document.head.append(element);
  }).finally(() => expected.delete(name));
}

// The columns of a file as one Float32Array; they come as planes of bytes, the highest first.
async function loadColumns(folder, name) {
  const packed = await unpacked(await textOf(folder, name));
  const planes = new Uint8Array(await packed.arrayBuffer());
  const length = planes.length / 4;
  const bits = new Uint32Array(length);
  for (let i = 0; i < length; i++) {
    bits[i] =
      (planes[i] << 24) |
      (planes[length + i] << 16) |
      (planes[2 * length + i] << 8) |
      planes[3 * length + i];
  }
  return new Float32Array(bits.buffer);
}

// Medians, means and bands over healthy seeds at equal cost.

const NETWORK = "network";

// A point's column as one array per seed; one array where all seeds are alike.
function rowsOf(point, name) {
  const [offset, count] = point.columns[name];
  return Array.from({ length: count }, (_, row) =>
    point.values.subarray(offset + row * point.records, offset + (row + 1) * point.records),
  );
}

// A seed's row; one row stands for all that are alike.
const ofSeed = (rows, seed) => rows[rows.length === 1 ? 0 : seed];

function networkTime(point, network) {
  const messages = rowsOf(point, "sequential_messages");
  const bytes = rowsOf(point, "sequential_bytes");
  const gradients = rowsOf(point, "sequential_gradients");
  const seeds = Math.max(messages.length, bytes.length, gradients.length);
  const { latency, bandwidth, gradient } = network;
  return Array.from({ length: seeds }, (_, seed) => {
    const [m, b, g] = [messages, bytes, gradients].map((rows) => ofSeed(rows, seed));
    const times = new Float64Array(point.records);
    for (let i = 0; i < times.length; i++) times[i] = latency * m[i] + b[i] / bandwidth + gradient * g[i];
    return times;
  });
}

function hasCost(point, cost) {
  if (cost !== NETWORK) return cost in point.columns;
  return point.ownLatency !== null || "sequential_messages" in point.columns;
}

function costRows(point, cost, network) {
  if (cost !== NETWORK) return rowsOf(point, cost);
  if (point.ownLatency !== null) return rowsOf(point, "simulated_time");
  return networkTime(point, network);
}

// By insertion: seeds are few, and a typed array's own sort takes several times as long.
function sort(values) {
  for (let i = 1; i < values.length; i++) {
    const value = values[i];
    let place = i;
    for (; place > 0 && values[place - 1] > value; place--) values[place] = values[place - 1];
    values[place] = value;
  }
  return values;
}

function median(sorted) {
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

// Values at `at`, by straight lines between a seed's records; `at` and `costs` do not fall.
function interpolated(at, costs, values) {
  const last = costs.length - 1;
  const found = new Float64Array(at.length);
  let left = 0;
  for (let i = 0; i < at.length; i++) {
    const x = at[i];
    while (left < last && costs[left + 1] <= x) left++;
    if (left === last || x <= costs[left]) found[i] = values[left];
    else {
      const share = (x - costs[left]) / (costs[left + 1] - costs[left]);
      found[i] = values[left] + share * (values[left + 1] - values[left]);
    }
  }
  return found;
}

// Seeds that differ in cost meet at the median cost of each record, within what every seed recorded.
function commonCosts(costs) {
  const start = Math.max(...costs.map((row) => row[0]));
  const end = Math.min(...costs.map((row) => row[row.length - 1]));
  const one = new Float64Array(costs.length);
  const common = new Float64Array(costs[0].length);
  for (let i = 0; i < common.length; i++) {
    for (let seed = 0; seed < costs.length; seed++) one[seed] = costs[seed][i];
    common[i] = Math.min(Math.max(median(sort(one)), start), end);
  }
  return common;
}

// The mean of values and its 95 % t-interval, geometric where `logarithmic`; infinite below two.
// quantiles: those of Student's t by degrees of freedom, the last of all larger ones.
function meanInterval(values, { logarithmic, smallest }, quantiles) {
  const [into, back] = logarithmic
    ? [(value) => Math.log10(Math.max(value, smallest)), (value) => 10 ** value]
    : [(value) => value, (value) => value];
  const own = Array.from(values, into);
  const mean = own.reduce((sum, value) => sum + value, 0) / own.length;
  if (own.length < 2) return [back(mean), back(-Infinity), back(Infinity)];
  const variance = own.reduce((sum, value) => sum + (value - mean) ** 2, 0) / (own.length - 1);
  const quantile = quantiles[Math.min(own.length - 1, quantiles.length) - 1];
  const half = quantile * Math.sqrt(variance / own.length);
  return [mean, mean - half, mean + half].map(back);
}

// How seeds are summed up, in words.
function centreName(band, { logarithmic }) {
  if (band !== "interval") return "median";
  return logarithmic ? "geometric mean" : "mean";
}

// [centre, low, high] of seeds, whose values are put in order: the median and their range, or the
// mean and its interval; NaN where one has no value.
function summed(values, band, { scale, quantiles }) {
  // A loop takes a fraction of the time of a callback for each of 40,000 records.
  for (const value of values) if (Number.isNaN(value)) return [NaN, NaN, NaN];
  if (band === "interval") return meanInterval(values, scale, quantiles);
  sort(values);
  return [median(values), values[0], values[values.length - 1]];
}

// {x, centre, low, high}, each by record, of seeds that are `summed` up. Costs and measurement must
// be among the point's columns, whose values must be there.
function curveOf(point, measurement, cost, network, band, statistics) {
  const { latency, bandwidth, gradient } = network;
  const key = [measurement, cost, latency, bandwidth, gradient, band === "interval"].join();
  if (point.cached?.key === key) return point.cached.curve;
  const costs = costRows(point, cost, network);
  let values = rowsOf(point, measurement);
  let x = costs[0];
  if (costs.length > 1) {
    x = commonCosts(costs);
    values = costs.map((row, seed) =>
      interpolated(x, row, ofSeed(values, seed)),
    );
  }
  const curve = { x, centre: values[0], low: values[0], high: values[0] };
  if (values.length > 1) {
    for (const name of ["centre", "low", "high"]) curve[name] = new Float64Array(x.length);
    const one = new Float64Array(values.length);
    for (let i = 0; i < x.length; i++) {
      for (let seed = 0; seed < values.length; seed++) one[seed] = values[seed][i];
      [curve.centre[i], curve.low[i], curve.high[i]] = summed(one, band, statistics);
    }
  }
  point.cached = { key, curve };
  return curve;
}

// The table below the figure, its legend: names and styles of curves, where they end, and what they
// spend to reach a target, as `fedatlas.compare` finds them.

const SORTABLE = ["run", "final", "cost", "seeds"];

// How far a value is from the best one, within what a measurement tells apart.
function distanceOf(value, { best, smallest }) {
  return Math.max(best === 1 ? 1 - value : value, smallest);
}

// Whether a value lies where the measurement is cut off, and so may be any smaller one. Columns have
// six digits.
function isAtFloor(value, { floor }) {
  return floor !== null && value <= floor * (1 + 1e-6);
}

// The cost at which a seed first is within a distance, on a straight line of logarithms between two
// records. A start that is there costs as much as the record after it, as ratios need a cost. Where
// the objective stands above its start, a measurement hides how far away the run is: it is then no
// nearer than the start. Values are told apart as far down as the target, but for those below a floor.
function costToReach(values, objective, costs, distance, measured) {
  const { floor, smallest } = measured;
  const scale = { ...measured, smallest: floor === null ? Math.min(smallest, distance) : smallest };
  const start = distanceOf(values[0], scale);
  const hides = (i) => scale.best !== 1 && objective !== null && objective[i] > objective[0];
  const at = (i) => {
    const own = distanceOf(values[i], scale);
    return hides(i) ? Math.max(own, start) : own;
  };
  let found = 0;
  while (found < values.length && !(at(found) <= distance)) found++;
  if (found === values.length) return Infinity;
  if (found === 0) return costs[1];
  const [before, after] = [Math.log10(at(found - 1)), Math.log10(at(found))];
  const share = Number.isFinite(before) ? (before - Math.log10(distance)) / (before - after) : 1;
  return costs[found - 1] + share * (costs[found] - costs[found - 1]);
}

// [centre, low, high] over the seeds that reached it; without an upper bound if one did not.
function costInterval(costs, seeds, quantiles) {
  const reached = costs.filter(Number.isFinite);
  if (!reached.length) return [Infinity, seeds > 1 ? Infinity : 0, Infinity];
  const all = reached.length === seeds;
  if (reached.some((cost) => cost === 0)) {
    return [0, 0, all && reached.every((cost) => cost === 0) ? 0 : Infinity];
  }
  const [centre, low, high] = meanInterval(reached, { logarithmic: true, smallest: 0 }, quantiles);
  return [centre, low, all ? high : Infinity];
}

// One curve's row: values at the end and costs as [centre, low, high], how many seeds reached the
// target, and what the run spent in all. `final` is what the table shows, as the figure sums up seeds, `atMost` which of its
// numbers are upper bounds, `atFloor` how many seeds end where the measurement is cut off.
function numbersOf(point, { y, x, target, band }, network, statistics) {
  const { scale, quantiles } = statistics;
  const values = rowsOf(point, y);
  const seeds = [...Array(point.seeds - point.diverged).keys()];
  const ends = seeds.map((seed) => ofSeed(values, seed).at(-1));
  const mean = summed(ends, "interval", statistics);
  const median = summed(ends, "range", statistics);
  const atFloor = ends.filter((value) => isAtFloor(value, scale)).length;
  const shown =
    band === "interval"
      ? { final: mean, atMost: [atFloor > 0, atFloor > 0, false] }
      : { final: median, atMost: median.map((value) => isAtFloor(value, scale)) };
  const row = { mean, median, ...shown, atFloor, cost: null, reached: null };
  if (target === "" || scale.best === null) return row;
  const costs = costRows(point, x, network);
  const objective = "objective" in point.columns ? rowsOf(point, "objective") : null;
  const distance = scale.best === 1 ? 1 - target : target;
  const found = seeds.map((seed) => {
    const own = objective && ofSeed(objective, seed);
    return costToReach(ofSeed(values, seed), own, ofSeed(costs, seed), distance, scale);
  });
  row.spent = Math.max(...costs.map((one) => one.at(-1)));
  row.cost = costInterval(found, point.seeds, quantiles);
  row.reached = found.filter(Number.isFinite).length;
  return row;
}

// The hardest target that every curve's centre meets, with one digit; "" where there is none.
function proposedTarget(entries, scale) {
  if (scale.best === null || !entries.length) return "";
  const nearest = entries.map(({ curve }) =>
    curve.centre.reduce((least, value) => Math.min(least, distanceOf(value, scale)), Infinity),
  );
  const distance = Math.max(...nearest.filter(Number.isFinite));
  const digit = 10 ** Math.floor(Math.log10(distance));
  const easier = Math.ceil((distance / digit) * 1.0001) * digit;
  const target = scale.best === 1 ? 1 - easier : easier;
  return Number.isFinite(target) ? Number(target.toPrecision(6)) : "";
}

// A cost with a unit of a size that is easily read. unit: "B", "s" or nothing, for counts.
function amount(cost, unit) {
  const value = +cost.toPrecision(3);
  if (unit === "s" && value >= 120) {
    return value < 7200 ? `${+(value / 60).toPrecision(3)} min` : `${+(value / 3600).toPrecision(3)} h`;
  }
  const power = value ? Math.floor(Math.log10(value) / 3) : 0;
  const thousands = Math.max(unit === "s" ? -3 : 0, Math.min(power, 4));
  const prefix = "nµm kMGT"[thousands + 3].trim();
  return `${+(value / 1000 ** thousands).toPrecision(3)}${unit && " "}${prefix}${unit}`;
}

// A number with its bounds, as `show` writes them; lines may break between numbers only. atMost:
// which of them are upper bounds. beyond: an infinite bound.
function interval([centre, low, high], show, { atMost = [], beyond = "∞" } = {}) {
  const number = (...parts) => element("span", { className: "whole" }, ...parts);
  const [most, mostLow, mostHigh] = [0, 1, 2].map((at) => (atMost[at] ? "≤ " : ""));
  const first = number(most, show(centre));
  if (low === high || (low <= 0 && high === Infinity)) return [first];
  const bound = (value) => (Number.isFinite(value) ? show(value) : value > 0 ? beyond : "–");
  const [from, to] = [low, high].map(bound);
  // A unit that both have stands once.
  const unit = / \D+$/.exec(to)?.[0];
  const least = unit && from.endsWith(unit) ? from.slice(0, -unit.length) : from;
  const bounds = [number("(", mostLow, least), " to ", number(mostHigh, to, ")")];
  return [first, " ", element("span", { className: "bounds" }, ...bounds)];
}

// Rows in the asked order: by a column, from small to large or, with a minus, the other way; equal
// ones stay in order. Rows of hidden curves, which have no numbers, come last.
function sortedRows(rows, sort) {
  const sign = sort.startsWith("-") ? -1 : 1;
  const value = {
    run: (row) => row.label,
    final: (row) => row.final[0],
    cost: (row) => row.cost?.[0] ?? Infinity,
    seeds: (row) => row.reached ?? 0,
  }[sort.replace("-", "")];
  const order = (a, b) => (a < b ? -sign : a > b ? sign : 0);
  const shown = rows.filter((row) => !row.hidden).sort((a, b) => order(value(a), value(b)));
  return [...shown, ...rows.filter((row) => row.hidden)];
}

function numberCells(row, unit) {
  if (row.hidden) return { final: [], cost: [], seeds: [] };
  const show = (cost) => amount(cost, unit);
  const never = row.cost?.[0] === Infinity;
  return {
    final: interval(row.final, rounded, row),
    cost:
      row.cost === null
        ? ["–"]
        : never
          ? [`not within ${show(row.spent)}`]
          : interval(row.cost, show, { beyond: `> ${show(row.spent)}` }),
    seeds: [row.reached === null ? `${row.seeds}` : `${row.reached} of ${row.seeds}`],
  };
}

// Which run spends least, in a sentence. goal: cost and target in words.
function answer(rows, goal, unit) {
  const asked = rows.filter((row) => row.cost !== null);
  const [best, ...others] = sortedRows(asked, "cost").filter((row) => row.reached === row.seeds);
  if (!asked.length) return [];
  if (!best) return [`No run arrives at ${goal.target} with all its seeds within what it spent.`];
  const told = (row) => [element("strong", {}, row.label), ` at ${amount(row.cost[0], unit)}`];
  const alike = others.filter((row) => row.cost[1] <= best.cost[2]).length;
  const lost = asked.length - others.length - 1;
  const early = asked.filter((row) => row.cost[0] === Infinity && row.spent < best.cost[2]);
  const names = early.slice(0, 3).map((row) => row.label).join("; ");
  return [
    ...[`Least ${goal.cost} to ${goal.target}: `, ...told(best)],
    ...(others.length ? ["; then ", ...told(others[0])] : []),
    alike ? `. The intervals of ${counted(alike, "run")} overlap with the first's` : "",
    lost ? `. ${lost} of ${asked.length} do not arrive with all seeds` : "",
    early.length ? `. Undecided, as they ended before: ${names}${early.length > 3 ? " …" : "."}` : ".",
  ];
}

// Focus stays where it was.
function fillNumbers(table, rows, columns, sort, unit) {
  const { activeElement } = document;
  const { sort: sorting, key: named } = table.contains(activeElement) ? activeElement.dataset : {};
  const heads = columns.map(([key, text]) => {
    const order = [`-${key}`, key].indexOf(sort);
    const mark = element("span", { "aria-hidden": "true" }, [" ▼", " ▲"][order] ?? " ↕");
    const button = element("button", { type: "button", title: "Sort by this column" }, text, mark);
    button.dataset.sort = key;
    const cell = element("th", { scope: "col", className: key === "run" ? "" : "number" }, button);
    if (order >= 0) cell.setAttribute("aria-sort", ["descending", "ascending"][order]);
    return cell;
  });
  table.tHead.rows[0].replaceChildren(...heads);
  table.tBodies[0].replaceChildren(
    ...rows.map((row) => {
      const cells = numberCells(row, unit);
      return element(
        "tr",
        {},
        element("th", { scope: "row" }, legendButton(row)),
        ...columns.slice(1).map(([key]) => element("td", { className: "number" }, ...cells[key])),
      );
    }),
  );
  const same = ({ dataset }) => (sorting ? dataset.sort === sorting : dataset.key === named);
  if (sorting || named) [...table.querySelectorAll("button")].find(same)?.focus();
}

// Columns as `Comparison.to_dataframe` names them. floor: below it the metric is not resolved.
function numbersCsv(rows, metric, cost, target, floor) {
  const quoted = (value) => (/[",\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  const number = (value) => (value === Infinity ? "inf" : value === -Infinity ? "-inf" : `${value}`);
  const records = rows.map((row) => {
    const [centre, low, high] = row.cost?.map(number) ?? ["", "", ""];
    const [final, final_low, final_high] = row.mean.map(number);
    const [final_median, final_lowest, final_highest] = row.median.map(number);
    return {
      ...{ experiment: row.experiment, run: row.run, point: row.point, title: row.title },
      ...{ metric, cost, target, seeds: row.seeds, seeds_reached: row.reached ?? "" },
      ...{ centre, low, high, final, final_low, final_high },
      ...{ final_median, final_lowest, final_highest },
      ...{ final_floor: floor ?? "", seeds_at_floor: row.atFloor },
    };
  });
  const lines = records.map((record) => Object.values(record).map(String).map(quoted).join());
  return [Object.keys(records[0] ?? {}).join(), ...lines].join("\n") + "\n";
}

// Text as a literal of Python.
function literal(text) {
  return JSON.stringify(text);
}

// The line that gives the same numbers; null where no target can be compared.
function pythonLine(name, rows, metric, cost, target, allPoints) {
  if (target === "" || !rows.length) return null;
  const runs = [...new Set(rows.map((row) => `${row.experiment}/${row.run}`))];
  const asked = [literal(name), literal(metric), literal(cost), compact(target)];
  const more = [`runs=[${runs.map(literal).join(", ")}]`, ...(allPoints ? ["all_points=True"] : [])];
  return `fedatlas.compare(${[...asked, ...more].join(", ")}).to_dataframe()`;
}
