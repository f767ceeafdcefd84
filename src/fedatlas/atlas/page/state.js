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
const QUESTIONS = { paper: "sentences of papers", ours: "questions of ours" };
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
