// Layout and axes that the charts share, and texts for them.

const COARSE = matchMedia('(pointer: coarse)');

/** Plotly reads a little HTML in texts: what comes from a lake is escaped, and what is not seen is written out. */
function plotText(value, most = 60) {
  const text = shorten(visible(value), most);
  return text.replace(/[&<>]/g, (character) => ({'&': '&amp;', '<': '&lt;', '>': '&gt;'})[character]);
}

function baseLayout(theme, height) {
  const font = {family: theme.font, size: 12, color: theme.muted};
  return {
    width: theme.width, height, autosize: false, margin: {l: 56, r: 12, t: 8, b: 32}, font, showlegend: false,
    paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)',
    hoverlabel: {bgcolor: theme.surface, bordercolor: theme.line, font: {...font, color: theme.text}, namelength: 40},
    hovermode: 'x unified', uirevision: 'kept',
    dragmode: COARSE.matches ? false : 'zoom',      // under a finger, a chart must let the page scroll
  };
}

/** An axis of times; all charts over time have the same span, so that they can be compared from one to the other. */
function timeAxis(theme) {
  return {
    type: 'date', gridcolor: theme.line, linecolor: theme.line, tickcolor: theme.line, ticks: 'outside', ticklen: 4,
    zeroline: false, hoverformat: hoverTime(), automargin: true, tickangle: 0, fixedrange: COARSE.matches,
    nticks: Math.max(3, Math.floor(theme.width / 110)), ...timeRange(),
  };
}

/** To the second, or more exactly where the steps are shorter. */
function hoverTime() {
  return `%Y-%m-%d %H:%M:%S${report.about.bucket_us < 1_000_000 ? '.%3f' : ''}`;
}

function timeRange() {
  const {first_us: first, last_us: last, bucket_us: bucket} = report.about;
  if (first === null || last === null) return {};
  return {range: [Math.floor(first / bucket), Math.floor(last / bucket) + 1].map((at) => at * bucket / 1000)};
}

function valueAxis(theme, more = {}) {
  const lines = {gridcolor: theme.line, zerolinecolor: theme.line};
  return {...lines, fixedrange: true, automargin: true, rangemode: 'tozero', nticks: 6, ...more};
}

const MOST_TICKS = 8;
const ROUND = Array.from({length: 13}, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();

/** Ticks of an axis of durations: 1, 2, 5, 10 … of a unit that people say, or 1, 10 … if that would be too many. */
function durationTicks(low, high) {
  const values = ROUND.filter((value) => value >= low / 2.5 && value <= high * 2.5);
  const kept = values.length > MOST_TICKS ? values.filter(isPowerOfTen) : values;
  return {tickvals: kept, ticktext: kept.map(roundDuration)};
}

function isPowerOfTen(value) {
  return /^10*$/.test(String(value));
}

/** Ticks of an axis of bytes from 0. */
function byteTicks(high) {
  const step = niceStep(high / 5);
  const values = Array.from({length: Math.floor(high / step) + 1}, (_, at) => at * step);
  return {tickvals: values, ticktext: values.map(roundBytes)};
}

/** 5000 as 5 kB: for values that are round. */
function roundBytes(value) {
  const power = Math.min(5, Math.floor(Math.log10(Math.max(1, value)) / 3 + 1e-9));
  return `${Number((value / KILO ** power).toPrecision(6))} ${['B', 'kB', 'MB', 'GB', 'TB', 'PB'][power]}`;
}

/** 5000 as 5 ms: for values that are round. */
function roundDuration(value) {
  if (value < 1000) return `${value} µs`;
  if (value < 1_000_000) return `${value / 1000} ms`;
  return `${value / 1_000_000} s`;
}
