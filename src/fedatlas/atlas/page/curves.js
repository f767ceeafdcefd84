// Medians, means and bands over healthy seeds at equal cost.

const NETWORK = "network";

// A point's column as one array per seed; one array where all seeds are alike.
function rowsOf(point, name) {
  const [offset, count] = point.columns[name];
  return Array.from({ length: count }, (_, row) =>
    point.values.subarray(offset + row * point.records, offset + (row + 1) * point.records),
  );
}

function networkTime(point, network) {
  const messages = rowsOf(point, "sequential_messages");
  const bytes = rowsOf(point, "sequential_bytes");
  const gradients = rowsOf(point, "sequential_gradients");
  const seeds = Math.max(messages.length, bytes.length, gradients.length);
  const of = (rows, seed) => rows[rows.length === 1 ? 0 : seed];
  const { latency, bandwidth, gradient } = network;
  return Array.from({ length: seeds }, (_, seed) => {
    const [m, b, g] = [of(messages, seed), of(bytes, seed), of(gradients, seed)];
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
      interpolated(x, row, values[values.length === 1 ? 0 : seed]),
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
