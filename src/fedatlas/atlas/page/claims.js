// Sentences with their outcomes, and their cases below them.

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

// Which claims the page holds: readers may miss those of other experiments.
function claimsHeld({ claims, claimed, experiments, shownBy }) {
  const told = Object.entries(QUESTIONS).flatMap(([question, whose]) => {
    const count = claims.filter((claim) => claim.question === question).length;
    return count ? [`${whose}: ${count}`] : [];
  });
  if (!told.length) return "This page holds no claims.";
  const own = new Set(experiments.map(({ name }) => name));
  const borrowing = claimed.filter((name) => !own.has(name) && shownBy(name).length).length;
  const borrowed = borrowing ? ` (${borrowing} of them with runs of another)` : "";
  const all = counted(claimed.length, "experiment");
  return `Claims of the ${all} on this page${borrowed}, no others: ${told.join("; ")}.`;
}

// The sentences of papers and our own questions are counted apart.
function claimsCount(claims, all, outcomes) {
  const told = Object.entries(QUESTIONS).flatMap(([question, whose]) => {
    const asked = claims.filter((claim) => claim.question === question);
    const total = all.filter((claim) => claim.question === question).length;
    return total ? [`${asked.length} of ${total} ${whose}: ${outcomesTold(asked, outcomes) || "none"}`] : [];
  });
  return told.join("; ");
}

function fillOutcomes(list, outcomes) {
  list.replaceChildren(
    ...outcomes.flatMap(({ name, meaning, mark }) => [
      element("dt", { className: className(name) }, `${mark} ${name}`),
      element("dd", {}, meaning),
    ]),
  );
}

function className(outcome) {
  return outcome.replaceAll(" ", "-");
}

// Measurements and hyper-parameters as words: those of other texts keep their underscores.
function inWords(text, keys) {
  return text.replace(/[a-z]\w*_\w+/g, (word) => (keys.has(word) ? word.replaceAll("_", " ") : word));
}

// A sentence or a case: its outcome, then what it says and why. about: its name and source.
function verdictItem(verdict, about, { marks, intervals, keys }) {
  const notes = [verdict.decides, verdict.fragile && `fragile: ${verdict.fragile}`].filter(Boolean);
  const outcome = element(
    "div",
    { className: `outcome ${className(verdict.outcome)}` },
    `${marks.get(verdict.outcome)} ${verdict.outcome}`,
    ...notes.map((note) => element("p", { className: "note" }, note)),
  );
  const drawn = verdict.drawing ? [intervalDrawing(verdict.drawing, intervals)] : [];
  const evidence = element("p", { className: "evidence" }, inWords(verdict.evidence, keys));
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
  if (claim.question === "ours") details.push("our own question");
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
