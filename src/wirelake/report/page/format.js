// How values look. The same everywhere and in every locale, so that two people who read a page see the same text.

const NOTHING = '–';
const KILO = 1000;

/** 1234567 as 1,234,567. */
function asCount(value) {
  const [whole, part] = String(Number.isInteger(value) ? value : Number(value.toFixed(3))).split('.');
  return withCommas(whole) + (part ? `.${part}` : '');
}

function withCommas(digits) {
  return digits.replace(/\B(?=(\d{3})+(?!\d))/g, ',');
}

/** Three digits that matter: 1.23, 12.3, 123. */
function threeDigits(value) {
  const decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
  return value.toFixed(decimals);
}

function asBytes(value) {
  if (value < KILO) return `${value} B`;
  const units = ['kB', 'MB', 'GB', 'TB', 'PB'];
  let scaled = value / KILO;
  let unit = 0;
  while (scaled >= 999.5 && unit < units.length - 1) {
    scaled /= KILO;
    unit += 1;
  }
  return `${threeDigits(scaled)} ${units[unit]}`;
}

/** Microseconds, in the unit that suits them. */
function asDuration(value) {
  if (value < 0) return `−${asDuration(-value)}`;
  if (value < 1000) return `${value} µs`;
  if (value < 999_500) return `${threeDigits(value / 1000)} ms`;
  if (value < 59_950_000) return `${threeDigits(value / 1_000_000)} s`;
  const seconds = Math.round(value / 1_000_000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${twoDigits(seconds % 60)} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h ${twoDigits(minutes % 60)} min`;
  const hours = Math.round(minutes / 60);
  return `${asCount(Math.floor(hours / 24))} d ${twoDigits(hours % 24)} h`;
}

function twoDigits(value) {
  return String(value).padStart(2, '0');
}

/** Microseconds since 1970 as UTC: 2024-01-01 10:00:00.123. */
function asTime(value) {
  const date = new Date(Math.floor(value / 1000));
  return Number.isNaN(date.getTime()) ? `${asCount(value)} µs` : date.toISOString().replace('T', ' ').replace('Z', '');
}

/** As asTime, to the microsecond: for titles and for the place where one message is looked at. */
function asExactTime(value) {
  const micros = String(((value % 1000) + 1000) % 1000).padStart(3, '0');
  return `${asTime(value)}${micros}`;
}

/** Only the time of day, where the day stands elsewhere. */
function asClock(value) {
  return asTime(value).slice(-12);
}

function asPercent(value) {
  const percent = value * 100;
  if (percent === 0 || percent >= 9.995) return `${percent.toFixed(0)} %`;
  return percent < 0.01 ? '< 0.01 %' : `${percent.toFixed(percent < 1 ? 2 : 1)} %`;
}

/** Peer details, from their JSON text. */
function asFacts(value) {
  try {
    return Object.entries(JSON.parse(value)).map(([name, fact]) => `${visible(name)}: ${visible(fact)}`).join(' · ');
  } catch {
    return visible(value);
  }
}

// C0 and C1 controls, marks that turn the direction of text, what is not drawn, halves of characters.
const UNSEEN = new RegExp([
  '[\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u034f\\u061c\\u115f\\u1160\\u180b-\\u180e',
  '\\u200b\\u200e\\u200f\\u2028-\\u202e',
  '\\u2060-\\u206f\\u3164\\ufeff\\uffa0\\ufff9-\\ufffb\\u{e0000}-\\u{e007f}]|\\p{Cs}',
].join(''), 'gu');
const BLANK = /^\s+$/u;

/** Text in which what would not be seen, or would change how the rest is seen, is written out. */
function visible(value) {
  const text = String(value).replace(UNSEEN, (character) => {
    const code = character.codePointAt(0);
    if (code < 0x20) return String.fromCodePoint(0x2400 + code);
    if (code === 0x7f) return '␡';
    return `‹U+${code.toString(16).toUpperCase().padStart(4, '0')}›`;
  });
  return BLANK.test(text) ? '␠'.repeat(text.length) : text;
}

/** The first characters of a long text, with a sign that there are more. */
function shorten(text, most) {
  const characters = [...text.slice(0, 2 * most + 2)];
  return characters.length > most ? `${characters.slice(0, most - 1).join('')}…` : text;
}

const WORDS = {
  in_doubt: 'in doubt', rolled_back: 'rolled back', read_only: 'read only', timeout: 'timeout',
  to_server: 'to server', to_client: 'to client', bytes: 'undecodable', state: 'out of sequence',
};
const WORD_COLUMNS = new Set(['outcome', 'ended', 'handshake', 'why', 'kind', 'source', 'direction']);

/** Names of the tables in words: in_doubt as in doubt. */
function asWords(value) {
  if (value === null || value === undefined) return NOTHING;
  return Object.hasOwn(WORDS, value) ? WORDS[value] : visible(value);
}

const UNKNOWN = 'unknown';

/** The protocol of a connection; of some nothing was understood. */
function protocolName(value) {
  return value === null || value === undefined || value === '' ? UNKNOWN : String(value);
}

const FORMATS = {
  count: asCount,
  bytes: asBytes,
  duration: asDuration,
  time: asTime,
  clock: asClock,
  percent: asPercent,
  facts: asFacts,
  words: asWords,
  text: visible,
};
const NOT_NUMBERS = new Set(['text', 'words', 'facts']);

/** A value in a format; a number that is none, and an empty cell, stay as they are. */
function format(value, how) {
  if (how === 'protocol') return visible(protocolName(value));
  if (value === null || value === undefined || value === '') return NOTHING;
  if (!NOT_NUMBERS.has(how) && typeof value !== 'number') return visible(value);
  return FORMATS[how](value);
}

const TIMES = new Set([
  'bucket_us', 'first_us', 'last_us', 'request_us', 'ts_us', 'oldest_us', 'minute_us', 'since_us', 'ended_us',
]);
const PERCENTS = new Set(['error_rate']);
const BYTE_COLUMNS = /^bytes(_|$)|_bytes$|^length$/;

/** How a column looks, by its name: names carry their unit. */
function formatOf(column, value) {
  if (column === 'facts' || column === 'protocol') return column;
  if (WORD_COLUMNS.has(column)) return 'words';
  if (typeof value !== 'number' && value !== null) return 'text';
  if (TIMES.has(column)) return 'time';
  if (column.endsWith('_us')) return 'duration';
  if (PERCENTS.has(column)) return 'percent';
  if (BYTE_COLUMNS.test(column)) return 'bytes';
  return 'count';
}

const LABELS = {
  p50_us: 'p50', p95_us: 'p95', p99_us: 'p99', max_us: 'slowest', bucket_us: 'time', request_us: 'time', ts_us: 'time',
  band_us: 'latency from', first_us: 'begins', last_us: 'last', oldest_us: 'oldest', latency_us: 'latency',
  duration_us: 'duration', prepare_us: 'prepare', commit_us: 'commit', error_rate: 'failed', timeouts: 'time-outs',
  gtrid: 'transaction', messages_to_server: 'to server', messages_to_client: 'to client',
  bytes_to_server: 'bytes to server', bytes_to_client: 'bytes to client', bytes_decoded: 'decoded',
  bytes_quarantined: 'quarantined', quarantined_bytes: 'quarantined', facts: 'peer details',
  held: 'in this page', of: 'in the lake',
};

function labelOf(column) {
  return Object.hasOwn(LABELS, column) ? LABELS[column] : column.replace(/_us$/, '').replaceAll('_', ' ');
}
