// What stands around the figure. Texts of traces and claims are set as text, never as markup.

const byId = (id) => document.getElementById(id);

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

// What a reader should know at once.
function tell(text) {
  byId("answer").textContent = text;
}

function counted(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

// A checkbox with its label; `names`: what it stands for, for events.
function checkbox(id, label, data) {
  const input = element("input", { type: "checkbox", id });
  Object.assign(input.dataset, data);
  return [input, element("label", { htmlFor: id }, ...label)];
}

function buildTree(container, papers) {
  let number = 0;
  for (const paper of papers) {
    const list = element("ul", { className: "experiments" });
    const group = element("div", { className: "group" });
    const box = checkbox(`tree-${number++}`, [paperTitle(paper.name)], { paper: paper.name });
    group.append(element("div", { className: "row paper" }, ...box), list);
    for (const experiment of paper.experiments) {
      const title = element("span", { className: "title" }, experiment.title);
      const only = element("button", { type: "button", "aria-label": `Show only ${experiment.name}` }, "only");
      only.dataset.only = experiment.name;
      const runs = experiment.runs.map((run) => {
        const box = checkbox(`tree-${number++}`, [run.title], { run: run.key });
        const row = element("li", { className: "row" }, ...box);
        row.dataset.found = [run.title, run.name, run.points[0]?.algorithm].join(" ").toLowerCase();
        return row;
      });
      const names = [experiment.name, title];
      const box = checkbox(`tree-${number++}`, names, { experiment: experiment.name });
      const summary = element("summary", {}, counted(runs.length, "run"));
      const details = element("details", {}, summary, element("ul", {}, ...runs));
      const item = element("li", {}, element("div", { className: "row" }, ...box, only), details);
      item.dataset.found = [paper.name, experiment.name, experiment.title, experiment.dataset]
        .join(" ")
        .toLowerCase();
      list.append(item);
    }
    container.append(group);
  }
}

// Show what has all words of the search: a whole experiment, or single runs of it.
function searchTree(container, text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  let found = 0;
  for (const group of container.querySelectorAll(".group")) {
    let some = false;
    for (const item of group.querySelectorAll(".experiments > li")) {
      const whole = words.every((word) => item.dataset.found.includes(word));
      let matches = 0;
      for (const run of item.querySelectorAll("li")) {
        const all = `${item.dataset.found} ${run.dataset.found}`;
        run.hidden = !whole && !words.every((word) => all.includes(word));
        matches += run.hidden ? 0 : 1;
      }
      item.hidden = words.length > 0 && !whole && matches === 0;
      if (words.length && !item.hidden) item.querySelector("details").open = !whole;
      some ||= !item.hidden;
      found += item.hidden ? 0 : matches;
    }
    group.hidden = !some;
  }
  return words.length ? `${counted(found, "run")} found` : "";
}

function tickTree(container, papers, chosen) {
  const tick = (input, runs) => {
    const on = runs.filter((run) => chosen.has(run.key)).length;
    input.checked = on > 0 && on === runs.length;
    input.indeterminate = on > 0 && on < runs.length;
  };
  const experiments = new Map(papers.flatMap((p) => p.experiments.map((e) => [e.name, e.runs])));
  const ofPaper = new Map(papers.map((p) => [p.name, p.experiments.flatMap((e) => e.runs)]));
  for (const input of container.querySelectorAll("input")) {
    const { paper, experiment, run } = input.dataset;
    if (run !== undefined) input.checked = chosen.has(run);
    else if (experiment !== undefined) tick(input, experiments.get(experiment));
    else tick(input, ofPaper.get(paper));
  }
}

// Options in two groups: what chosen runs have, and what they have not.
function fillOptions(select, names, present, words) {
  const signature = JSON.stringify([...names].map(([name, text]) => [text, present.has(name)]));
  if (select.dataset.signature === signature) return;
  select.dataset.signature = signature;
  const group = (label, wanted) => {
    const options = [...names]
      .filter(([name]) => present.has(name) === wanted)
      .map(([name, text]) => element("option", { value: name }, text));
    return options.length ? [element("optgroup", { label }, ...options)] : [];
  };
  select.replaceChildren(...group(words[0], true), ...group(words[1], false));
}

function svgElement(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function swatch({ colour, swatch: dashes }) {
  const look = { stroke: colour, "stroke-width": 3, "stroke-dasharray": dashes };
  const line = svgElement("line", { x1: 0, x2: 34, y1: 5, y2: 5, ...look });
  return svgElement("svg", { viewBox: "0 0 34 10", "aria-hidden": "true" }, line);
}

// A curve's name in the legend, with what it ran with: a button, which a keyboard reaches, that
// hides or shows the curve.
function legendButton({ key, label, diverged, settings, hidden, ...look }) {
  const name = element("span", { className: "name" }, label);
  if (diverged) name.append(element("span", { className: "small" }, ` (${diverged})`));
  const told = element("span", { className: "small settings" }, settings);
  const about = element("span", {}, name, told);
  const button = element("button", { type: "button", "aria-pressed": String(!hidden) }, swatch(look), about);
  button.dataset.key = key;
  return button;
}

function fillList(section, list, texts) {
  section.hidden = texts.length === 0;
  list.replaceChildren(...texts.map((text) => element("li", {}, text)));
}

function fillExperiments(section, list, experiments) {
  section.hidden = experiments.length === 0;
  list.replaceChildren(
    ...experiments.flatMap(({ name, title, source, dataset, notes }) => {
      const told = [source, dataset && `data: ${dataset}`, notes].filter(Boolean).join(" · ");
      return [element("dt", {}, title || name), element("dd", {}, told)];
    }),
  );
}

// An effect drawn small, of the parts that claims_page.py places.
function intervalDrawing({ drawing, effect }) {
  const parts = Object.entries(drawing).map(([name, d]) => svgElement("path", { class: name, d }));
  const all = { class: "interval", viewBox: "0 0 220 24", role: "img", "aria-label": effect };
  return svgElement("svg", all, svgElement("title", {}, effect), ...parts);
}

// Claims with their outcomes, and their cases below them.

// Those that the filters leave; `isShown`: whether curves of an experiment are shown.
function filteredClaims(claims, { experiment, outcome, question, paper, shown }, isShown) {
  return claims.filter(
    (claim) =>
      (!experiment || claim.experiment === experiment) &&
      (!outcome || claim.outcome === outcome) &&
      (!question || claim.question === question) &&
      (!paper || claim.paper === paper) &&
      (shown === "0" || isShown(claim.experiment)),
  );
}

// How many there are of each outcome, in words.
function outcomesTold(claims, outcomes) {
  return outcomes
    .map(({ name }) => [claims.filter((claim) => claim.outcome === name).length, name])
    .filter(([count]) => count > 0)
    .map((pair) => pair.join(" "))
    .join(", ");
}

// The claims of papers and own questions are counted apart.
function claimsCount(claims, all, outcomes) {
  const told = Object.entries(QUESTIONS).flatMap(([question, whose]) => {
    const asked = claims.filter((claim) => claim.question === question);
    const total = all.filter((claim) => claim.question === question).length;
    return total ? [`${asked.length} of ${total} ${whose}: ${outcomesTold(asked, outcomes) || "none"}`] : [];
  });
  return told.join("; ");
}

function className(outcome) {
  return outcome.replaceAll(" ", "-");
}

// Measurements and hyper-parameters as words: those of other texts keep their underscores.
function inWords(text, keys) {
  return text.replace(/[a-z]\w*_\w+/g, (word) => (keys.has(word) ? word.replaceAll("_", " ") : word));
}

// A claim or a case: its outcome, then what it says and why. about: its name and source.
function verdictItem(verdict, about, { marks }) {
  const notes = [
    verdict.decides,
    verdict.fragile && `fragile: ${verdict.fragile}`,
    verdict.horizon.includes(",") && `by budget or target: ${verdict.horizon}`,
    verdict.tries && `by configurations tried: ${verdict.tries}`,
  ].filter(Boolean);
  const outcome = element(
    "div",
    { className: `outcome ${className(verdict.outcome)}` },
    `${marks.get(verdict.outcome)} ${verdict.outcome}`,
    ...notes.map((note) => element("p", { className: "note" }, note)),
  );
  const drawn = verdict.drawing ? [intervalDrawing(verdict)] : [];
  const evidence = element("p", { className: "evidence" }, verdict.evidence);
  const told = element("div", { className: "about" }, ...about, ...drawn, evidence);
  return element("li", { className: "claim" }, outcome, told);
}

function casesList(cases, shown) {
  const items = cases.map((found) =>
    verdictItem(found, [element("span", { className: "case" }, found.case)], shown),
  );
  return element("ul", {}, ...items);
}

function claimItem(claim, hasCurves, shown) {
  const words = inWords(claim.statement, shown.keys);
  const statement = hasCurves
    ? element("button", { type: "button" }, words)
    : element("span", {}, words);
  if (hasCurves) statement.dataset.experiment = claim.experiment;
  const details = [claim.claim.slice(claim.experiment.length + 1), claim.source].filter(Boolean);
  if (claim.question === "ours") details.push("own question");
  const source = element("p", { className: "source" }, details.join(" · "));
  const item = verdictItem(claim, [statement, source], shown);
  if (!claim.cases.length) return item;
  const summary = element("summary", {}, counted(claim.cases.length, "case"));
  const folded = element("details", { className: "cases" }, summary);
  // Thousands of cases are made when a reader asks for them.
  const unfold = () => folded.append(casesList(claim.cases, shown));
  folded.addEventListener("toggle", unfold, { once: true });
  item.append(folded);
  return item;
}

// A folded part for each experiment, headed by its name. Parts stay as a reader left them.
function fillClaims(frame, claims, isDrawable, shown) {
  const open = new Set(experimentParts(frame).flatMap((part) => (part.open ? [part.dataset.of] : [])));
  const names = [...new Set(claims.map((claim) => claim.experiment))];
  frame.replaceChildren(
    ...names.map((name) => {
      const has = isDrawable(name);
      const own = claims.filter((claim) => claim.experiment === name);
      const told = `${own.length}: ${outcomesTold(own, shown.outcomes)}`;
      const heading = element("h3", {}, has ? name : `${name} (no curves in this page)`);
      const part = element(
        "details",
        { className: "experiment", open: open.has(name) },
        element("summary", {}, heading, " ", element("span", { className: "small" }, told)),
        element("ul", {}, ...own.map((claim) => claimItem(claim, has, shown))),
      );
      part.dataset.of = name;
      return part;
    }),
  );
}

function experimentParts(frame) {
  return [...frame.querySelectorAll(".experiment")];
}

// What the page holds: its description, columns that are read when they are shown, and numbers.

function described() {
  const description = JSON.parse(byId("description").textContent);
  const { papers, claims, firstMeasurements, shows } = description;
  const claimed = [...new Set(claims.map((claim) => claim.experiment))];
  const atlas = {
    ...description,
    experiments: papers.flatMap((paper) => paper.experiments),
    runs: new Map(),
    points: new Map(),
    files: new Map(),
    costs: new Map(Object.entries(description.costs)),
    measurements: new Map(Object.entries(description.measurements)),
    marks: new Map(description.outcomes.map(({ name, mark }) => [name, mark])),
    claimPapers: [...new Set(claims.map((claim) => claim.paper))].sort(),
  };
  // All that an address or a filter may name.
  const named = [...claimed, ...atlas.experiments.map(({ name }) => name), ...Object.keys(shows)];
  atlas.names = [...new Set(named)].sort();
  atlas.costs.set(NETWORK, { label: "simulated time under one network for all", unit: "s" });
  for (const cost of atlas.costs.values()) cost.unit ??= "";
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
  // Keys in claims, which the page tells in words.
  const hyperParameters = [...atlas.points.values()].flatMap((point) => point.hyperParameters);
  atlas.keys = new Set([...atlas.measurements.keys(), ...hyperParameters.map(([key]) => key)]);
  // Runs that an experiment shows: its own, or those of another.
  atlas.shownBy = (name) => {
    const own = atlas.experiments.find((experiment) => experiment.name === name);
    const keys = own ? own.runs.map((run) => run.key) : (shows[name] ?? []);
    return keys.filter((key) => atlas.runs.has(key));
  };
  // The measurement and cost that most of the chosen runs have, in a fixed order of preference; a map
  // is of times. network: that of their experiment.
  atlas.propose = (chosen) => {
    const runs = [...chosen].map((key) => atlas.runs.get(key));
    const points = runs.flatMap((run) => run.points);
    const own = runs[0]?.experiment;
    const network = { ...NETWORK_AT_FIRST, ...own?.network };
    if (own?.map && atlas.whole(chosen)) return { y: Object.keys(own.targets)[0], x: "simulated_time", network };
    const most = (names, has) => {
      const counts = names.map((name) => points.filter((point) => has(point, name)).length);
      return names[counts.indexOf(Math.max(...counts))];
    };
    // Updates of asynchronous runs are not rounds of others.
    const mixed = new Set(points.map(({ ownLatency }) => ownLatency === null)).size > 1;
    const costs = [...atlas.costs.keys()].slice(mixed ? 1 : 0);
    const measured = [...firstMeasurements, ...atlas.measurements.keys()];
    return {
      y: most(measured, (point, name) => name in point.columns),
      x: most(costs, hasCost),
      network,
    };
  };
  // The experiment of which all runs are chosen, and no others.
  atlas.whole = (chosen) => {
    const experiment = atlas.runs.get([...chosen][0])?.experiment;
    const all = experiment?.runs.length === chosen.size && experiment.runs.every(({ key }) => chosen.has(key));
    return all ? experiment : undefined;
  };
  return atlas;
}

// What a paper is called in lists; some experiments are of no paper.
function paperTitle(name) {
  return name === "ours" ? "own experiments" : name;
}

// The runs of a first view: across papers, if there are such.
function firstChosen({ experiments }) {
  const across = experiments.find((experiment) => experiment.name.includes("crosspaper"));
  return (across ?? experiments[0])?.runs.map((run) => run.key) ?? [];
}

function rounded(value) {
  const size = Math.abs(value);
  return size && (size < 1e-3 || size >= 1e6) ? value.toExponential(2) : `${+value.toPrecision(3)}`;
}

// A name with its value: what lies in a scheme is called by its own name.
function inPlainWords([name, value]) {
  return `${name.replace(/.*\./, "").replaceAll("_", " ")} ${value}`;
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
