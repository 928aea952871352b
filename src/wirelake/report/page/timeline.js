// The two phases of a transaction, branch by branch: bars for work, prepare and decision over one axis of time. What
// never ended is left open at its right end.

const PHASES = ['work', 'prepare', 'commit', 'rollback'];
const LANE = 40;
const AXIS = 26;

/** The timeline of a conversation's branches; null if it has none. */
function branchTimeline(branches, width) {
  const bars = branches.flatMap((branch) => branch.bars);
  const starts = bars.map((item) => item.start).filter((value) => value !== null);
  if (starts.length === 0) return null;
  const from = starts.reduce((least, value) => Math.min(least, value));
  const ends = bars.map((item) => item.end ?? item.start).filter((value) => value !== null);
  const to = ends.reduce((most, value) => Math.max(most, value), from + 1);
  const open = bars.some((item) => item.end === null);
  const labels = Math.min(220, Math.max(96, width * 0.24));
  const place = (value) => labels + ((value - from) / (to - from)) * (width - labels - (open ? 72 : 16));
  const height = AXIS + branches.length * LANE + 4;
  const picture = draw('svg', {class: 'timeline', role: 'img', 'aria-label': timelineWords(branches)},
    axisMarks(from, to, place, height), branches.map((branch, at) => lane(branch, at, place, width, labels)));
  setSize(picture, width, height);
  return make('section', {class: 'branches', 'aria-label': 'Two-phase commit'},
    make('h3', {text: 'Two-phase commit'}), phaseLegend(branches), picture, branchTable(branches, from));
}

function timelineWords(branches) {
  return branches.map((branch) =>
    `${branchName(branch)}: ${branch.bars.map(barWords).join(', ')}; ${asWords(branch.outcome)}`).join('. ');
}

function branchName(branch) {
  return visible(branch.label || branch.branch);
}

function barWords(item) {
  const length = item.end === null ? 'never ended' : asDuration(item.end - item.start);
  return `${item.phase} ${length}${item.result ? ` (${visible(item.result)})` : ''}`;
}

function axisMarks(from, to, place, height) {
  const step = niceStep((to - from) / 5);
  const marks = [];
  for (let at = 0; at <= to - from; at += step) {
    const x = place(from + at);
    const text = at === 0 ? '0' : roundDuration(at);
    marks.push(draw('line', {class: 'grid', x1: x, x2: x, y1: AXIS - 6, y2: height}),
      draw('text', {class: 'tick', x, y: AXIS - 11, 'text-anchor': 'middle', text}));
  }
  return marks;
}

/** 1, 2 or 5 times a power of ten, not below this. */
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, least)));
  return [1, 2, 5, 10].map((digit) => digit * power).find((value) => value >= least);
}

function lane(branch, at, place, width, labels) {
  const top = AXIS + at * LANE;
  const name = branchName(branch);
  const shown = fitText(name, labels - 12, 'lane-name');
  const group = draw('g', {class: 'lane'},
    draw('line', {class: 'grid', x1: 0, x2: width, y1: top, y2: top}),
    draw('text', {class: 'lane-name', x: 0, y: top + 17, text: shown}, draw('title', {text: name})),
    draw('text', {class: `lane-outcome ${toneOf(branch.outcome)}`, x: 0, y: top + 32, text: asWords(branch.outcome)}));
  for (const item of branch.bars) group.append(...phaseBar(item, top + 10, place, width));
  return group;
}

function phaseBar(item, top, place, width) {
  if (item.start === null) return [];
  const left = place(item.start);
  const phase = PHASES.includes(item.phase) ? item.phase : 'work';
  const isOpen = item.end === null;
  const right = isOpen ? width - 8 : Math.max(place(item.end), left + 3);
  const shape = isOpen ? openBar(left, right, top) : `M${left} ${top}H${right}V${top + 20}H${left}Z`;
  const inside = right - left - 10;
  const kind = `${phase}${isOpen ? ' unended' : ''}`;
  const words = (isOpen ? [`${item.phase}: no end`, 'no end'] : [item.phase])
    .find((text) => fitText(text, inside, 'bar-text') === text);
  return [
    draw('path', {class: `bar ${kind}`, d: shape}, draw('title', {text: barWords(item)})),
    ...(words ? [draw('text', {class: `bar-text ${kind}`, x: left + 5, y: top + 14, text: words})] : []),
  ];
}

/** A bar whose right end is torn off. */
function openBar(left, right, top) {
  const torn = `L${right - 6} ${top + 15}L${right} ${top + 10}L${right - 6} ${top + 5}Z`;
  return `M${right} ${top}H${left}V${top + 20}H${right}${torn}`;
}

function phaseLegend(branches) {
  const used = PHASES.filter((phase) => branches.some((branch) => branch.bars.some((item) => item.phase === phase)));
  return make('ul', {class: 'legend'}, ...used.map((phase) =>
    make('li', {}, make('span', {class: `swatch ${phase}`, 'aria-hidden': 'true'}), phase)));
}

function branchTable(branches, from) {
  const rows = branches.flatMap((branch) => branch.bars.map((item) => [
    longText(branchName(branch), 'code'), item.phase,
    item.start === null ? NOTHING : `+${asDuration(item.start - from)}`,
    item.end === null ? 'never ended' : asDuration(item.end - item.start),
    format(item.result, 'text'), statusTag(branch.outcome),
  ]));
  const heads = ['branch', 'phase', 'begins', 'took', 'reply', 'outcome'];
  const table = plainTable('Phases of each branch', heads, rows);
  return make('details', {class: 'as-table'}, make('summary', {text: 'As table'}), table);
}
