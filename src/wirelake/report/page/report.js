// The report that the page shows, and its filter. Parts of the page read both here, and are updated when they change.

const settings = JSON.parse(byId('settings').textContent);
const activeFilter = {search: '', protocols: new Set()};
let report = JSON.parse(byId('report').textContent);

const EMPTY = {columns: [], rows: [], total: 0};
const parts = [];

/** Adds a part of the page; it is updated whenever the report, the filter or the theme has changed. */
function join(part) {
  parts.push(part);
  return part;
}

/** Why: 'report', 'filter' or 'theme'. */
function updateParts(why) {
  for (const part of parts) part.update(why);
}

/** The result of a query; empty if this report does not have the query. */
function resultOf(name) {
  return Object.hasOwn(report.data, name) ? report.data[name] : EMPTY;
}

function hasResult(name) {
  return Object.hasOwn(report.data, name);
}

/** One value of a result, null if there is no such row or column. */
function valueAt(name, row, column) {
  const {columns, rows} = resultOf(name);
  const at = columns.indexOf(column);
  return at < 0 || row >= rows.length ? null : rows[row][at];
}

/** A result as objects without a prototype, each with the number of its row. */
function records(name) {
  const {columns, rows} = resultOf(name);
  return rows.map((cells, row) => {
    const record = Object.create(null);
    columns.forEach((column, at) => { record[column] = cells[at]; });
    return {row, cells: record};
  });
}

// The name of all protocols together, in results that are divided by protocol.
const ALL_PROTOCOLS = 'all';

/** Every protocol that some row has, those that wirelake knows by itself first. */
function protocols() {
  const found = new Set();
  for (const name of ['protocols', 'traffic', 'sessions', 'violations', 'rules', 'open']) {
    const {columns, rows} = resultOf(name);
    const at = columns.indexOf('protocol');
    if (at >= 0) for (const row of rows) found.add(protocolName(row[at]));
  }
  found.delete(ALL_PROTOCOLS);
  return [...found].sort(byRank);
}

const OWN_COLOURS = ['casual', 'dsa', 'mb', 'ceda'];

function rank(protocol) {
  const at = OWN_COLOURS.indexOf(protocol);
  return protocol === UNKNOWN ? 99 : at < 0 ? 50 : at;
}

function byRank(one, other) {
  return rank(one) - rank(other) || (one < other ? -1 : 1);
}

/** The colour of a protocol, by its name alone: the same on every page and every day. */
function colourIndex(protocol) {
  if (protocol === UNKNOWN) return 0;
  const at = OWN_COLOURS.indexOf(protocol);
  if (at >= 0) return at + 1;
  let sum = 7;
  for (const character of protocol.slice(0, 200)) sum = (sum * 31 + character.codePointAt(0)) % 65521;
  return OWN_COLOURS.length + 1 + (sum % 3);
}

function protocolWanted(value) {
  return activeFilter.protocols.size === 0 || activeFilter.protocols.has(protocolName(value));
}

/** Whether a row with these columns passes the filter: its protocol, and each word of the search in some cell. */
function rowWanted(columns, row) {
  const at = columns.indexOf('protocol');
  if (at >= 0 && !protocolWanted(row[at])) return false;
  return textWanted(row);
}

function textWanted(cells) {
  if (activeFilter.search === '') return true;
  const raw = cells.map((cell) => (cell === null ? '' : String(cell))).join('\n').toLowerCase();
  const text = `${raw}\n${raw.replaceAll('_', ' ')}`;
  return activeFilter.search.split(/\s+/).every((word) => text.includes(word));
}

function filterIsOn() {
  return activeFilter.search !== '' || activeFilter.protocols.size > 0;
}
