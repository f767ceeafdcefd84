// What the page holds: its description, columns that are read when they are shown, and numbers.

function described() {
  const description = JSON.parse(byId("description").textContent);
  const { papers, costs, measurements, claims, firstMeasurements, shows } = description;
  const claimed = [...new Set(claims.map((claim) => claim.experiment))];
  const atlas = {
    papers,
    claims,
    firstMeasurements,
    folder: description.folder,
    name: description.atlas,
    experiments: papers.flatMap((paper) => paper.experiments),
    runs: new Map(),
    points: new Map(),
    files: new Map(),
    costs: new Map(Object.entries(costs)),
    measurements: new Map(Object.entries(measurements)),
    outcomes: description.outcomes,
    intervals: description.intervals,
    thinned: description.thinned,
    quantiles: description.quantiles,
    marks: new Map(description.outcomes.map(({ name, mark }) => [name, mark])),
    claimPapers: [...new Set(claims.map((claim) => claim.paper))].sort(),
    claimed,
  };
  // All that an address or a filter may name.
  const named = [...claimed, ...atlas.experiments.map(({ name }) => name), ...Object.keys(shows)];
  atlas.names = [...new Set(named)].sort();
  atlas.costs.set(NETWORK, "simulated time under a network that you declare (s)");
  for (const experiment of atlas.experiments) {
    for (const run of experiment.runs) {
      run.key = `${experiment.name}/${run.name}`;
      run.experiment = experiment;
      atlas.runs.set(run.key, run);
      for (const point of run.points) {
        point.key = `${run.key}/${point.name}`;
        atlas.points.set(point.key, point);
      }
    }
  }
  // Keys in evidence, which the page tells in words.
  const hyperParameters = [...atlas.points.values()].flatMap((point) => point.hyperParameters);
  atlas.keys = new Set([...atlas.measurements.keys(), ...hyperParameters.map(([key]) => key)]);
  // Runs that an experiment shows: its own, or those of another.
  atlas.shownBy = (name) => {
    const own = atlas.experiments.find((experiment) => experiment.name === name);
    const keys = own ? own.runs.map((run) => run.key) : (shows[name] ?? []);
    return keys.filter((key) => atlas.runs.has(key));
  };
  // The measurement and cost that most of the chosen runs have, in a fixed order of preference.
  atlas.propose = (chosen) => {
    const points = [...chosen].flatMap((key) => atlas.runs.get(key).points);
    const most = (names, has) => {
      const counts = names.map((name) => points.filter((point) => has(point, name)).length);
      return names[counts.indexOf(Math.max(...counts))];
    };
    const measured = [...firstMeasurements, ...atlas.measurements.keys()];
    return {
      y: most(measured, (point, name) => name in point.columns),
      x: most([...atlas.costs.keys()], hasCost),
    };
  };
  return atlas;
}

// What a paper is called in lists; some experiments are of no paper.
function paperTitle(name) {
  return name === "ours" ? "across papers" : name;
}

function firstView(atlas) {
  const { experiments } = atlas;
  const across = experiments.find((experiment) => experiment.name.includes("crosspaper"));
  const experiment = across ?? experiments[0];
  return { chosen: new Set(experiment ? experiment.runs.map((run) => run.key) : []) };
}

function rounded(value) {
  const size = Math.abs(value);
  return size && (size < 1e-3 || size >= 1e6) ? value.toExponential(2) : `${+value.toPrecision(3)}`;
}

// The shorter of 0.00001 and 1e-5.
function compact(value) {
  const [usual, scientific] = [String(value), value.toExponential().replace("e+", "e")];
  return scientific.length < usual.length ? scientific : usual;
}

// Read the files of these points, each once; points have `values`, or the reason why not, after.
function loadPoints(atlas, points) {
  return Promise.all(
    points.map(async (point) => {
      if (!atlas.files.has(point.file)) {
        atlas.files.set(point.file, loadColumns(atlas.folder, point.file));
      }
      try {
        point.values = await atlas.files.get(point.file);
      } catch (error) {
        point.unread = error.message;
        atlas.files.delete(point.file);
      }
    }),
  );
}
