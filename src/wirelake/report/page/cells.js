// Elements that show a value of a result, and say which: query, row, column and the raw value are on them, so that
// every number of the page can be compared with what its SQL gives.

const LONG = 140;
const ONE_LINE = 36;
const TONES = {
  in_doubt: 'bad', error: 'bad', timeout: 'bad', reset: 'warn', refused: 'bad', unanswered: 'warn', rolled_back: 'warn',
  violation: 'bad', failed: 'bad', slow: 'warn', committed: 'good', ok: 'good', complete: 'good',
};
const CODE_COLUMNS = new Set([
  'address', 'message', 'connection', 'gtrid', 'rule', 'path', 'client', 'server', 'state', 'status', 'conversation',
  'sensor',
]);

/** Marks an element as the place of one value. */
function tie(element, query, row, column, value, how) {
  const raw = value === null ? '' : String(value);
  Object.assign(element.dataset, {query, row: String(row), column, value: raw, format: how});
  return element;
}

/** A number of a result inside a sentence or a tile. */
function figure(query, row, column, how = null) {
  const value = valueAt(query, row, column);
  const chosen = how ?? formatOf(column, value);
  const element = make('span', {class: 'figure', text: format(value, chosen), title: exactly(value, chosen)});
  return tie(element, query, row, column, value, chosen);
}

/** What a shortened number is exactly; nothing if it is not shortened. */
function exactly(value, how) {
  if (typeof value !== 'number') return null;
  if (how === 'time' || how === 'clock') return `${asExactTime(value)} UTC`;
  if (how === 'duration') return `${asCount(value)} µs`;
  if (how === 'bytes') return `${asCount(value)} bytes`;
  return how === 'percent' ? String(value) : null;
}

/** Whether the lake has several sensors: then the page names them. */
function hasSensors() {
  return report.about.sensor_count > 1;
}

/** Whether all of the report lies on one day, so that rows need not repeat it. */
function oneDay() {
  const {first_us: first, last_us: last} = report.about;
  return first !== null && last !== null && asTime(first).slice(0, 10) === asTime(last).slice(0, 10);
}

function cellFormat(column, value) {
  const how = formatOf(column, value);
  return how === 'time' && oneDay() && sameDay(value) ? 'clock' : how;
}

function sameDay(value) {
  return value !== null && asTime(value).slice(0, 10) === asTime(report.about.first_us).slice(0, 10);
}

/** The content of a cell: words, a protocol with its colour, a status, a number, or text that may be long. */
function cellContent(column, value, how) {
  const text = format(value, how);
  if (how === 'protocol') return protocolTag(value);
  if (value === null || value === '') return make('span', {class: 'nothing', text});
  if (how === 'words') return statusTag(value);
  if (!NOT_NUMBERS.has(how)) return make('span', {text, title: exactly(value, how)});
  const kind = CODE_COLUMNS.has(column) ? 'code' : 'words';
  return longText(text, kind);
}

/** Text of any length: a long one is opened in its place, by mouse, touch or keyboard. */
function longText(text, kind = 'words') {
  if (text.length <= LONG) return make('bdi', {class: text.length > ONE_LINE ? `${kind} wraps` : kind, text});
  return make('details', {class: `long ${kind}`},
    make('summary', {}, make('bdi', {text: shorten(text, LONG - 40)})),
    make('bdi', {class: 'whole', text}));
}

function protocolTag(value) {
  const name = protocolName(value);
  return make('span', {class: 'protocol', data: {colour: colourIndex(name)}},
    make('span', {class: 'swatch', 'aria-hidden': 'true'}), make('bdi', {text: shorten(visible(name), LONG)}));
}

function statusTag(value) {
  return make('span', {class: `status ${toneOf(value)}`}, make('bdi', {text: asWords(value)}));
}

function toneOf(value) {
  return Object.hasOwn(TONES, value) ? TONES[value] : 'plain';
}

/** A table of what stands in a conversation: rows of texts and elements, the first of a row is its head. */
function plainTable(caption, heads, rows) {
  const body = rows.map(([first, ...others]) =>
    make('tr', {}, make('th', {scope: 'row'}, first), ...others.map((cell) => make('td', {}, cell))));
  const head = make('tr', {}, ...heads.map((text) => make('th', {scope: 'col', text})));
  return make('div', {class: 'scroller'}, make('table', {}, make('caption', {class: 'unseen', text: caption}),
    make('thead', {}, head), make('tbody', {}, ...body)));
}
