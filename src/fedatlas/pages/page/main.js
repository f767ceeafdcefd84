// What is chosen of what the page holds, and what follows from a change.

function start(atlas) {
  const first = firstView(atlas);
  let address = location.hash.slice(1);
  let { state, unknown } = fromAddress(address, atlas, first);

  const chosenRuns = () => [...atlas.runs.values()].filter((run) => state.chosen.has(run.key));
  const chosenPoints = () =>
    chosenRuns().flatMap((run) =>
      run.points
        .filter((point) => state.points === "all" || point.selected)
        .map((point) => ({ run, point })),
    );

  function costTitle() {
    if (state.x !== NETWORK) return atlas.costs.get(state.x);
    const [latency, bandwidth, gradient] = NUMBERS.map((name) => compact(state[name]));
    return `simulated time (s): latency ${latency} s, ${bandwidth} bytes/s, ${gradient} s per gradient`;
  }

  function reasonToLeaveOut(point) {
    if (point.diverged === point.seeds) return `every seed of ${point.seeds} diverged`;
    const label = atlas.measurements.get(state.y).label;
    if (!(state.y in point.columns)) return `does not measure the ${label}`;
    if (hasCost(point, state.x)) return point.unread ?? null;
    const counted = state.x === NETWORK ? "what a network's time is made of" : atlas.costs.get(state.x);
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
    points.forEach(({ run, point }, number) => {
      const label = labelOf(run, point, many);
      const reason = reasonToLeaveOut(point);
      if (reason !== null) {
        leftOut.push(`${label}: ${reason}`);
        return;
      }
      const lost = `${point.diverged} of ${counted(point.seeds, "seed")} diverged`;
      const curve = curveOf(point, state.y, state.x, state, state.band, statistics);
      if (curve.x[curve.x.length - 1] === Infinity) {
        leftOut.push(`${label}: spends more than any number of ${costTitle()}`);
        return;
      }
      entries.push({
        key: point.key,
        number,
        label,
        curve,
        point,
        diverged: point.diverged ? lost : "",
        seeds: point.diverged ? lost : counted(point.seeds, "seed"),
        run,
        hyperParameters: point.hyperParameters.map((pair) => pair.join(" ")).join(", "),
      });
    });
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
    const texts = [`${counted(curves, "curve")}: ${centres} over seeds that did not diverge.`];
    if (unknown.length) texts.push(`This page does not hold ${unknown.join(", ")} of the address.`);
    if (state.band !== "none" && curves > RANGES_UP_TO) {
      texts.push(`Bands are drawn for up to ${RANGES_UP_TO} curves.`);
    }
    const styles = themed().colours.length * DASHES.length;
    if (curves > styles) texts.push("Colours and dashes repeat: point at a curve for its name.");
    const own = shown.map(({ point }) => point.ownLatency).filter((latency) => latency !== null);
    if (state.x === NETWORK && own.length) {
      const other = own.find((latency) => latency !== state.latency);
      texts.push(
        "Runs with a clock of their own keep the network that they were simulated on: the numbers " +
          "declared here do not move them." +
          (other === undefined ? "" : ` With a latency of ${compact(other)} s they do not compare.`),
      );
    }
    const scale = atlas.measurements.get(state.y);
    if (shown.some(({ curve }) => curve.low.some((value) => isAtFloor(value, scale)))) {
      const least = compact(scale.floor);
      texts.push(`What is drawn at ${least} lies there or below: f* is known no better.`);
    }
    const lost = ({ curve }) => curve.centre.some((value) => value <= 0);
    if (logarithmic.y && shown.some(lost)) texts.push("Values of 0 and below have no place on this scale.");
    if (leftOut.length) texts.push(`${leftOut.length} left out, see below.`);
    return texts.join(" ");
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
    byId("message").textContent = `Reading ${counted(missing.length, "curve")} …`;
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
    draw(byId("figure"), shown, {
      xTitle: costTitle(),
      yTitle,
      logarithmic,
      band: state.band,
      view: [state.y, state.x, logarithmic.x, logarithmic.y, ...state.chosen].join(),
      words,
    });
    fillList(byId("left-out"), byId("left-out-list"), leftOut);
    return entries;
  }

  function renderChoice() {
    tickTree(byId("tree"), atlas.papers, state.chosen);
    byId("chosen-count").textContent = `${state.chosen.size} of ${atlas.runs.size} chosen`;
    const points = chosenPoints().map(({ point }) => point);
    const names = new Map([...atlas.measurements].map(([name, { label }]) => [name, label]));
    const measured = new Set(points.flatMap((point) => Object.keys(point.columns)));
    fillOptions(byId("measurement"), names, measured, ["measured by chosen runs", "not measured"]);
    const counts = [...atlas.costs.keys()].filter((c) => points.some((point) => hasCost(point, c)));
    fillOptions(byId("cost"), atlas.costs, new Set(counts), ["counted by chosen runs", "not counted"]);
    const shown = new Set(chosenRuns().map((run) => run.experiment));
    fillExperiments(byId("experiments"), byId("experiment-notes"), [...shown]);
  }

  function renderControls() {
    byId("measurement").value = state.y;
    byId("cost").value = state.x;
    byId("y-scale").value = state.ys;
    byId("x-scale").value = state.xs;
    byId("band").value = state.band;
    byId("all-points").checked = state.points === "all";
    byId("network").hidden = state.x !== NETWORK;
    for (const name of NUMBERS) {
      const input = byId(name);
      if (document.activeElement !== input) input.value = state[name];
    }
    byId("experiment").value = state.experiment;
    byId("outcome").value = state.outcome;
    byId("question").value = state.question;
    byId("paper").value = state.paper;
    byId("shown-only").checked = state.shown === "1";
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

  function render({ choice = true, figure = true, claims = true } = {}) {
    if (choice) renderChoice();
    renderControls();
    if (figure) renderFigure();
    if (claims) renderClaims();
    if (choice || claims) unfoldClaims();
  }

  // A change by the reader: a step back leads to what was before, except within one number's typing.
  function change(patch, parts, replace = false) {
    Object.assign(state, patch);
    unknown = [];
    address = toAddress(state, atlas.experiments);
    // Unlike a change of `location`, it looks for no element of that name, which lays the page out.
    history[replace ? "replaceState" : "pushState"](null, "", `#${address}`);
    render(parts);
  }

  // Another choice; where none of it has the measurement or cost, those that most of it have.
  function choose(chosen, patch = {}) {
    const points = [...chosen].flatMap((key) => atlas.runs.get(key).points);
    patch.chosen = chosen;
    if (points.length) {
      const proposed = atlas.propose(chosen);
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

  const figureOnly = { choice: false, claims: false };
  const claimsOnly = { choice: false, figure: false };
  const onChange = (id, patch, parts) =>
    byId(id).addEventListener("change", ({ target }) => change(patch(target), parts));

  onChange("measurement", ({ value }) => ({ y: value, target: "" }), figureOnly);
  onChange("cost", ({ value }) => ({ x: value }), figureOnly);
  onChange("y-scale", ({ value }) => ({ ys: value }), figureOnly);
  onChange("x-scale", ({ value }) => ({ xs: value }), figureOnly);
  onChange("band", ({ value }) => ({ band: value }), figureOnly);
  onChange("all-points", ({ checked }) => ({ points: checked ? "all" : "selected" }), { claims: false });
  onChange("experiment", ({ value }) => ({ experiment: value }), claimsOnly);
  onChange("outcome", ({ value }) => ({ outcome: value }), claimsOnly);
  onChange("question", ({ value }) => ({ question: value }), claimsOnly);
  onChange("paper", ({ value }) => ({ paper: value }), claimsOnly);
  onChange("shown-only", ({ checked }) => ({ shown: checked ? "1" : "0" }), claimsOnly);

  let typedIn = null;
  for (const name of NUMBERS) {
    byId(name).addEventListener("input", ({ target }) => {
      const value = target.valueAsNumber;
      const valid = isAllowed(name, value);
      target.setAttribute("aria-invalid", String(!valid));
      if (!valid) {
        byId("message").textContent =
          `${name} must be a number ${name === "bandwidth" ? "above 0" : "of 0 or more"}; the figure ` +
          `shows ${state[name]}.`;
        return;
      }
      change({ [name]: value }, figureOnly, typedIn === name);
      typedIn = name;
    });
    byId(name).addEventListener("blur", ({ target }) => {
      typedIn = null;
      target.value = state[name];
      target.setAttribute("aria-invalid", "false");
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
    goTo(byId("figure-heading"));
  });
  byId("skips").addEventListener("click", ({ target }) => {
    if (target.dataset.to !== undefined) goTo(byId(target.dataset.to));
  });
  const foldAll = (open) => () => {
    for (const part of experimentParts(byId("claims-frame"))) part.open = open;
  };
  byId("unfold-claims").addEventListener("click", foldAll(true));
  byId("fold-claims").addEventListener("click", foldAll(false));

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
    byId("message").textContent = told;
  }

  addEventListener("hashchange", () => {
    const text = location.hash.slice(1);
    if (text === address) return;
    address = text;
    ({ state, unknown } = fromAddress(text, atlas, first));
    render();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => renderFigure());

  const showNumbers = numbersPanel(atlas, () => state, change, copy);

  const option = (value, text) => element("option", { value }, text);
  byId("outcome").append(option("", "all"), ...atlas.outcomes.map(({ name }) => option(name, name)));
  byId("question").append(
    option("", "all"),
    ...Object.entries(QUESTIONS).map(([value, text]) => option(value, text)),
  );
  byId("paper").append(
    option("", "all"),
    ...atlas.claimPapers.map((name) => option(name, paperTitle(name))),
  );
  byId("experiment").append(option("", "all"), ...atlas.names.map((name) => option(name, name)));
  byId("claims-held").textContent = claimsHeld(atlas);
  byId("holds").textContent =
    `${counted(atlas.runs.size, "run")} of ${counted(atlas.experiments.length, "experiment")}, ` +
    `${counted(atlas.claims.length, "claim")}`;
  byId("thinned").hidden = !atlas.thinned;
  byId("thinned").textContent = `Traces are thinned, ${atlas.thinned}.`;
  buildTree(byId("tree"), atlas.papers);
  byId("runs").open = matchMedia("(min-width: 761px)").matches;
  render();
}

try {
  await loadLibrary();
  start(described());
} catch (error) {
  byId("holds").textContent = `The page could not be shown (${error}); a browser of 2023 or later can.`;
  throw error;
}
