// What is chosen of what the page holds, and what follows from a change.

const FIGURE_ONLY = { choice: false, claims: false };
const CLAIMS_ONLY = { choice: false, figure: false };
// Element → what it chooses, and what follows from it.
const CONTROLS = {
  measurement: ["y", FIGURE_ONLY],
  cost: ["x", FIGURE_ONLY],
  "y-scale": ["ys", FIGURE_ONLY],
  "x-scale": ["xs", FIGURE_ONLY],
  band: ["band", FIGURE_ONLY],
  "all-points": ["points", { claims: false }],
  experiment: ["experiment", CLAIMS_ONLY],
  outcome: ["outcome", CLAIMS_ONLY],
  question: ["question", CLAIMS_ONLY],
  paper: ["paper", CLAIMS_ONLY],
  "shown-only": ["shown", CLAIMS_ONLY],
};

function start(atlas) {
  let address = location.hash.slice(1);
  let { state, unknown } = fromAddress(address, atlas);

  const chosenRuns = () => [...atlas.runs.values()].filter((run) => state.chosen.has(run.key));
  const chosenPoints = () =>
    chosenRuns().flatMap((run) =>
      run.points
        .filter((point) => state.points === "all" || point.selected)
        .map((point) => ({ run, point })),
    );

  // What exchanges of parties are is said where such runs are chosen.
  function costLabel(cost) {
    const { label } = atlas.costs.get(cost);
    const parties = chosenPoints().some(({ point }) => "update_epoch" in point.columns);
    return cost === "round" && !parties ? label.replace(/ \(.*/, "") : label;
  }

  function costTitle() {
    if (state.x !== NETWORK) return costLabel(state.x);
    const [latency, bandwidth, gradient] = ["s", "B", "s"].map((unit, at) => amount(state[NUMBERS[at]], unit));
    return `simulated time: latency ${latency}, ${bandwidth}/s, ${gradient} per gradient`;
  }

  function reasonToLeaveOut(point) {
    if (point.diverged === point.seeds) return `every seed of ${point.seeds} diverged`;
    const label = atlas.measurements.get(state.y).label;
    if (!(state.y in point.columns)) return `does not measure the ${label}`;
    if (hasCost(point, state.x)) return point.unread ?? null;
    const counted = state.x === NETWORK ? "what a network's time is made of" : costLabel(state.x);
    return `does not count ${counted}`;
  }

  function labelOf(run, point, manyExperiments) {
    const parts = [point.label ? `${run.title}, ${point.label}` : run.title];
    if (manyExperiments) parts.push(run.experiment.name);
    const label = parts.join(" · ");
    if (state.x !== NETWORK || point.ownLatency === null) return label;
    return `${label} (own clock, latency ${compact(point.ownLatency)} s)`;
  }

  // Curves to draw, in order, and runs that cannot be with the reason.
  function gathered() {
    const points = chosenPoints();
    const many = new Set(points.map(({ run }) => run.experiment)).size > 1;
    const [entries, leftOut] = [[], []];
    const statistics = statisticsOf(atlas, state.y);
    for (const { run, point } of points) {
      const label = labelOf(run, point, many);
      const reason = reasonToLeaveOut(point);
      if (reason !== null) {
        leftOut.push(`${label}: ${reason}`);
        continue;
      }
      const lost = `${point.diverged} of ${counted(point.seeds, "seed")} diverged`;
      const curve = curveOf(point, state.y, state.x, state, state.band, statistics);
      if (curve.x[curve.x.length - 1] === Infinity) {
        leftOut.push(`${label}: spends more than any number of ${costTitle()}`);
        continue;
      }
      entries.push({
        key: point.key,
        label,
        curve,
        point,
        diverged: point.diverged ? lost : "",
        seeds: point.diverged ? lost : counted(point.seeds, "seed"),
        run,
        settings: [...run.facts, ...point.hyperParameters].map(inPlainWords).join(", "),
      });
    }
    style(entries, atlas, themed(atlas));
    return { entries, leftOut };
  }

  // As the figures of experiments choose, where a reader does not.
  function logarithmicScales(entries) {
    let [xEnds, low, high] = [[], Infinity, -Infinity];
    for (const { curve } of entries) {
      xEnds.push(curve.x.findLast(Number.isFinite) ?? 0);
      for (const value of curve.low) if (value < low) low = value;
      for (const value of curve.high) if (value > high) high = value;
    }
    const { logarithmic, logarithmicOverDecade } = atlas.measurements.get(state.y);
    const far = xEnds.length > 0 && Math.max(...xEnds) > 8 * Math.min(...xEnds);
    const falls = logarithmic || (logarithmicOverDecade && low > 0 && high > 10 * low);
    return {
      x: state.xs === "auto" ? far : state.xs === "log",
      y: state.ys === "auto" ? falls : state.ys === "log",
    };
  }

  function messages(shown, leftOut, logarithmic) {
    const curves = shown.length;
    const name = centreName(state.band, atlas.measurements.get(state.y));
    const centres = `${name}s${state.band === "interval" ? " and their 95 % t-intervals" : ""}`;
    const looks = new Set(shown.map(({ colour, dash }) => colour + dash));
    const own = shown.map(({ point }) => point.ownLatency).filter((latency) => latency !== null);
    const clocks = state.x === NETWORK && own.length > 0;
    const other = own.find((latency) => latency !== state.latency);
    const scale = atlas.measurements.get(state.y);
    const declared = [...new Set(shown.map(({ run }) => run.declared))].filter(Boolean).join(", ");
    const cutOff = shown.some(({ curve }) => curve.low.some((value) => isAtFloor(value, scale)));
    const lost = logarithmic.y && shown.some(({ curve }) => curve.centre.some((value) => value <= 0));
    const texts = [
      [curves, `${counted(curves, "curve")}: ${centres} over seeds that did not diverge.`],
      [unknown.length, `This page does not hold ${unknown.join(", ")} of the address.`],
      [state.band !== "none" && curves > RANGES_UP_TO, `Bands are drawn for up to ${RANGES_UP_TO} curves.`],
      [curves > looks.size, "Colours and dashes repeat: point at a curve for its name."],
      [clocks, "Runs with a clock of their own keep its latency."],
      [clocks && other !== undefined, `With ${amount(other ?? 0, "s")} they do not compare with the others.`],
      [cutOff, `≤ ${scale.floor} is there or below: f* is known no better. A mean over such seeds is an upper bound.`],
      [declared, `That runs made elsewhere solve the problem of ${declared} was declared, not checked.`],
      [lost, "Values of 0 and below have no place on this scale."],
      [leftOut.length, `${leftOut.length} left out, see below.`],
    ];
    return texts.flatMap(([is, text]) => (is ? [text] : [])).join(" ");
  }

  function emptyText(leftOut) {
    const without = state.experiment && !atlas.shownBy(state.experiment).length;
    if (!state.chosen.size && without) return `This page has no curves of ${state.experiment}.`;
    if (!state.chosen.size) return "Nothing is chosen: tick an experiment or a run.";
    if (leftOut.length) return "None of the chosen runs can be drawn so; below stands why.";
    return "All curves are hidden: press names in the legend.";
  }

  // Draws what is chosen as soon as all of it is read, unless the choice has changed by then.
  let reading = null; // what is waited for last
  function renderFigure() {
    const missing = chosenPoints()
      .map(({ point }) => point)
      .filter((point) => !point.values && reasonToLeaveOut(point) === null);
    delete document.body.dataset.ready;
    if (!missing.length) {
      const drawn = (reading = drawFigure());
      // A reader waits for the figure: the legend comes after the frame that shows it.
      const fill = () => {
        if (reading !== drawn) return;
        showNumbers(drawn);
        document.body.dataset.ready = "true";
      };
      requestAnimationFrame(() => setTimeout(fill));
      return;
    }
    tell(`Reading ${counted(missing.length, "curve")} …`);
    const started = loadPoints(atlas, missing);
    reading = started;
    started.then(() => reading === started && renderFigure());
  }

  // Returns the entries of the legend: curves that are drawn, and those that a reader hides.
  function drawFigure() {
    const { entries, leftOut } = gathered();
    const shown = entries.filter((entry) => !state.hidden.has(entry.key));
    const logarithmic = logarithmicScales(shown);
    byId("message").textContent = messages(shown, leftOut, logarithmic);
    byId("empty").hidden = shown.length > 0;
    byId("empty").textContent = emptyText(leftOut);
    const yTitle = atlas.measurements.get(state.y).label;
    byId("figure-heading").textContent = `${yTitle[0].toUpperCase()}${yTitle.slice(1)}`;
    const drawn = new Set(shown.map(({ run }) => run.experiment.name));
    const names = drawn.size > 3 ? counted(drawn.size, "experiment") : [...drawn].join(", ");
    const words =
      `${yTitle} against ${costTitle()}: ` +
      (shown.length
        ? `${counted(shown.length, "curve")} of ${names}. The table below has their numbers.`
        : "no curves");
    const target = targetOf(shown);
    const theme = themed(atlas);
    let told = "";
    const map = atlas.whole(state.chosen)?.map;
    if (map && state.points === "selected" && target !== "" && shown.length === entries.length) {
      const statistics = statisticsOf(atlas, state.y);
      const cost = ({ run, point }) => [
        run.name,
        numbersOf(point, asked(point, state, target), state, statistics).cost?.[0],
      ];
      const names = map.cells[0].runs.map((name) => shown.find(({ run }) => run.name === name).label);
      told = drawMap(byId("figure"), map, new Map(shown.map(cost)), names, theme, words);
    } else {
      draw(byId("figure"), shown, theme, {
        xTitle: costTitle(),
        yTitle,
        unit: atlas.costs.get(state.x).unit,
        target,
        logarithmic,
        band: state.band,
        view: [state.y, state.x, logarithmic.x, logarithmic.y, ...state.chosen].join(),
        words,
      });
    }
    fillList(byId("left-out"), byId("left-out-list"), leftOut);
    if (told) byId("message").textContent = "A cell's number is the ratio of geometric means over seeds.";
    return { entries, target, map: told };
  }

  // The reader's target, else that of the experiment, else the hardest that all curves meet.
  function targetOf(shown) {
    if (state.target !== "") return state.target;
    const experiments = new Set(shown.map(({ run }) => run.experiment));
    const [own] = experiments;
    return (experiments.size === 1 && own.targets?.[state.y]) || proposedTarget(shown, statisticsOf(atlas, state.y).scale);
  }

  function renderChoice() {
    tickTree(byId("tree"), atlas.papers, state.chosen);
    byId("chosen-count").textContent = `${state.chosen.size} of ${atlas.runs.size} chosen`;
    const points = chosenPoints().map(({ point }) => point);
    const names = new Map([...atlas.measurements].map(([name, { label }]) => [name, label]));
    const measured = new Set(points.flatMap((point) => Object.keys(point.columns)));
    fillOptions(byId("measurement"), names, measured, ["measured by chosen runs", "not measured"]);
    const counts = [...atlas.costs.keys()].filter((c) => points.some((point) => hasCost(point, c)));
    const labels = new Map([...atlas.costs.keys()].map((name) => [name, costLabel(name)]));
    fillOptions(byId("cost"), labels, new Set(counts), ["counted by chosen runs", "not counted"]);
    const shown = new Set(chosenRuns().map((run) => run.experiment));
    fillExperiments(byId("experiments"), byId("experiment-notes"), [...shown]);
  }

  function renderControls() {
    for (const [id, [key]] of Object.entries(CONTROLS)) {
      const control = byId(id);
      if (control.type === "checkbox") control.checked = state[key] === CHECKED[key][1];
      else control.value = state[key];
    }
    byId("network").hidden = state.x !== NETWORK;
    for (const name of NUMBERS) {
      const input = byId(name);
      if (document.activeElement !== input) input.value = compact(state[name]);
    }
  }

  function renderClaims() {
    const isShown = (name) => atlas.shownBy(name).some((key) => state.chosen.has(key));
    const claims = filteredClaims(atlas.claims, state, isShown);
    byId("claims-count").textContent = claimsCount(claims, atlas.claims, atlas.outcomes);
    const drawable = (name) => atlas.shownBy(name).length > 0;
    fillClaims(byId("claims-frame"), claims, drawable, atlas);
  }

  // The claims about what the figure shows, and those that are asked for.
  function unfoldClaims() {
    for (const part of experimentParts(byId("claims-frame"))) {
      const name = part.dataset.of;
      const keys = atlas.shownBy(name);
      const whole = keys.length > 0 && keys.every((key) => state.chosen.has(key));
      if (whole || name === state.experiment) part.open = true;
    }
  }

  // Lists show the experiment that a link leads to.
  function scrollToChosen() {
    const [key] = state.chosen;
    const box = key && byId("tree").querySelector(`[data-run="${CSS.escape(key)}"]`);
    if (!box) return;
    const [tree, row] = [byId("tree"), box.closest(".experiments > li")].map((one) => one.getBoundingClientRect());
    if (row.top < tree.top || row.top > tree.bottom - 40) byId("tree").scrollTop += row.top - tree.top;
  }

  function render({ choice = true, figure = true, claims = true } = {}) {
    if (choice) renderChoice();
    renderControls();
    if (figure) renderFigure();
    if (claims) renderClaims();
    if (choice || claims) unfoldClaims();
  }

  // A change by the reader: a step back leads to what was before.
  function change(patch, parts) {
    Object.assign(state, patch);
    unknown = [];
    address = toAddress(state, atlas.experiments);
    // Unlike a change of `location`, it looks for no element of that name, which lays the page out.
    history.pushState(null, "", `#${address}`);
    render(parts);
  }

  // Another choice; where none of it has the measurement or cost, those that most of it have.
  function choose(chosen, patch = {}) {
    const points = [...chosen].flatMap((key) => atlas.runs.get(key).points);
    patch.chosen = chosen;
    if (points.length) {
      const [before, proposed] = [state.chosen, chosen].map(atlas.propose);
      // The experiment's own network, unless a reader declares one.
      if (NUMBERS.every((name) => state[name] === before.network[name])) Object.assign(patch, proposed.network);
      if (atlas.whole(chosen)?.map) Object.assign(patch, { y: proposed.y, x: proposed.x });
      if (!points.some((point) => state.y in point.columns)) patch.y = proposed.y;
      if (!points.some((point) => hasCost(point, state.x))) patch.x = proposed.x;
    }
    change(patch, { claims: state.shown === "1" || "experiment" in patch });
  }

  // Claims that are of one experiment only become those of this one.
  function chooseOnly(name) {
    const claims = state.experiment ? { experiment: name } : {};
    choose(new Set(atlas.shownBy(name)), { hidden: new Set(), ...claims });
  }

  // Below the top of the screen, as the part may be higher than that.
  function goTo(heading) {
    heading.scrollIntoView({ block: "start" });
    heading.focus({ preventScroll: true });
  }

  for (const [id, [key, parts]] of Object.entries(CONTROLS)) {
    byId(id).addEventListener("change", ({ target }) => {
      const value = target.type === "checkbox" ? CHECKED[key][Number(target.checked)] : target.value;
      change({ [key]: value, ...(key === "y" ? { target: "" } : {}) }, parts);
    });
  }

  for (const name of NUMBERS) {
    byId(name).addEventListener("change", ({ target }) => {
      const valid = isAllowed(name, target.valueAsNumber);
      target.setAttribute("aria-invalid", String(!valid));
      if (valid) change({ [name]: target.valueAsNumber }, FIGURE_ONLY);
      else tell(`${name} must be a number ${name === "bandwidth" ? "above 0" : "of 0 or more"}; the figure shows ${state[name]}.`);
    });
  }

  byId("tree").addEventListener("change", ({ target }) => {
    const { paper, experiment, run } = target.dataset;
    const runs = [...atlas.runs.values()].filter((candidate) =>
      run !== undefined
        ? candidate.key === run
        : experiment !== undefined
          ? candidate.experiment.name === experiment
          : atlas.papers.find((p) => p.name === paper).experiments.includes(candidate.experiment),
    );
    const chosen = new Set(state.chosen);
    for (const { key } of runs) target.checked ? chosen.add(key) : chosen.delete(key);
    choose(chosen);
  });
  byId("tree").addEventListener("click", ({ target }) => {
    if (target.dataset.only !== undefined) chooseOnly(target.dataset.only);
  });
  byId("choose-none").addEventListener("click", () => choose(new Set()));
  byId("search").addEventListener("input", ({ target }) => {
    byId("search-result").textContent = searchTree(byId("tree"), target.value);
  });

  byId("claims-frame").addEventListener("click", ({ target }) => {
    const name = target.closest("button")?.dataset.experiment;
    if (name === undefined) return;
    chooseOnly(name);
    scrollToChosen();
    goTo(byId("figure-heading"));
  });
  byId("skips").addEventListener("click", ({ target }) => {
    if (target.dataset.to !== undefined) goTo(byId(target.dataset.to));
  });
  for (const id of ["unfold-claims", "fold-claims"]) {
    byId(id).addEventListener("click", () => {
      for (const part of experimentParts(byId("claims-frame"))) part.open = id === "unfold-claims";
    });
  }

  byId("reset-zoom").addEventListener("click", () =>
    Plotly.relayout(byId("figure"), { "xaxis.autorange": true, "yaxis.autorange": true }),
  );
  byId("save-figure").addEventListener("click", () => save(byId("figure")));
  byId("copy-link").addEventListener("click", () =>
    copy(`${location.href.split("#")[0]}#${toAddress(state, atlas.experiments)}`, "Link"),
  );

  async function copy(text, what) {
    let told = `${what} copied.`;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      told = `The browser does not let pages copy here; the ${what.toLowerCase()}: ${text}`;
    }
    tell(told);
  }

  addEventListener("hashchange", () => {
    const text = location.hash.slice(1);
    if (text === address) return;
    address = text;
    ({ state, unknown } = fromAddress(text, atlas));
    render();
    scrollToChosen();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => renderFigure());

  const showNumbers = numbersPanel(atlas, () => state, change, copy);

  const options = {
    outcome: atlas.outcomes.map(({ name }) => [name, name]),
    question: Object.entries(QUESTIONS),
    paper: atlas.claimPapers.map((name) => [name, paperTitle(name)]),
    experiment: atlas.names.map((name) => [name, name]),
  };
  for (const [id, own] of Object.entries(options)) {
    byId(id).append(...[["", "all"], ...own].map(([value, text]) => element("option", { value }, text)));
  }
  byId("holds").textContent =
    `${counted(atlas.runs.size, "run")} of ${counted(atlas.experiments.length, "experiment")}, ` +
    `${counted(atlas.claims.length, "claim")}`;
  buildTree(byId("tree"), atlas.papers);
  byId("runs").open = matchMedia("(min-width: 761px)").matches;
  render();
  scrollToChosen();
}

try {
  await loadLibrary();
  start(described());
} catch (error) {
  byId("holds").textContent = `The page could not be shown (${error}); a browser of 2024 or later can.`;
  throw error;
}
