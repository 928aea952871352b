// The bytes of a message, annotated: a dump in hex, and below it its parts with field and value. A part and its bytes
// point at each other, by mouse and by keyboard; what breaks a rule is marked in both.

const SOURCES = {
  quarantine: 'as quarantined',
  kept: 'as captured',
  fields: 're-encoded from the decoded fields',
};

/** The view of a Bytes value. */
function bytesView(bytes, direction) {
  const values = bytes.hex.match(/../g) ?? [];
  const wrong = errorRange(bytes, values.length);
  const dump = makeDump(values, bytes, wrong);
  const table = makeParts(values, bytes, wrong);
  const view = make('section', {class: 'bytes', 'aria-label': 'Bytes'},
    make('h4', {text: 'Bytes'}), make('p', {class: 'note', text: bytesNote(bytes, values.length, direction)}),
    dump, table);
  connectParts(view, bytes.parts);
  requestAnimationFrame(() => showByte(dump, '.wrong'));
  return view;
}

function bytesNote(bytes, shown, direction) {
  const where = direction ? ` ${asWords(direction)}` : '';
  const cut = shown < bytes.total ? `, the first ${asCount(shown)} here` : '';
  const source = Object.hasOwn(SOURCES, bytes.from) ? SOURCES[bytes.from] : visible(bytes.from ?? '');
  const count = `${asCount(bytes.total)} ${bytes.total === 1 ? 'byte' : 'bytes'}`;
  return `${count} from offset ${asCount(bytes.base)} of the stream${where}${cut}; ${source}.`;
}

/** The bytes at fault: the part in which the rule was broken, else the byte behind which nothing was read. */
function errorRange(bytes, length) {
  if (!bytes.error) return null;
  const {offset, path} = bytes.error;
  const at = Number.isInteger(offset) ? offset : null;
  const isThere = (part) => at === null || (at >= part.offset && at <= part.offset + part.length);
  const named = bytes.parts.find((part) => path && part.path === path && isThere(part));
  const around = named ?? (at === null ? null : smallestPart(bytes.parts, at));
  if (around && around.length > 0) return {from: around.offset, to: around.offset + around.length, part: around};
  if (at === null || at >= length) return null;
  return {from: at, to: at + 1, part: null};
}

function smallestPart(parts, at) {
  return parts.filter((part) => at >= part.offset && at < part.offset + part.length)
    .reduce((best, part) => (best === null || part.length < best.length ? part : best), null);
}

const PER_ROW = 16;
const SEEN_ROWS = 13;

/** Scrolls a dump, and nothing around it, to its first byte of a kind. */
function showByte(dump, kind) {
  const row = dump.querySelector(kind)?.closest('.dump-row');
  if (!row) return;
  const [seen, wanted] = [dump.getBoundingClientRect(), row.getBoundingClientRect()];
  if (wanted.top < seen.top || wanted.bottom > seen.bottom) {
    dump.scrollTop += wanted.top - seen.top - dump.clientHeight / 3;
  }
}

function makeDump(values, bytes, wrong) {
  const owners = partOwners(bytes.parts, values.length);
  const isTall = values.length > SEEN_ROWS * PER_ROW;
  const dump = make('div', {class: 'dump', role: 'group', 'aria-label': 'Dump in hex', tabindex: isTall ? 0 : null});
  for (let at = 0; at < values.length; at += PER_ROW) {
    const row = values.slice(at, at + PER_ROW);
    const hex = row.map((value, step) => dumpByte(value, at + step, owners, wrong));
    const text = row.map((value) => printable(parseInt(value, 16))).join('');
    dump.append(make('div', {class: 'dump-row'},
      make('span', {class: 'dump-offset', text: String(at).padStart(4, ' ')}),
      make('span', {class: 'dump-hex'}, ...hex), make('span', {class: 'dump-text', text, 'aria-hidden': 'true'})));
  }
  return dump;
}

function dumpByte(value, at, owners, wrong) {
  const owner = owners[at];
  const state = !wrong || at < wrong.from ? '' : at < wrong.to ? ' wrong' : owner < 0 ? ' unread' : '';
  const data = owner >= 0 ? {at, part: owner} : {at};
  return make('span', {class: `byte${owner % 2 === 1 ? ' odd' : ''}${state}`, text: value, data});
}

/** For each byte the smallest part that it lies in, -1 if none. */
function partOwners(parts, length) {
  const owners = new Array(length).fill(-1);
  const bySize = parts.map((part, at) => ({part, at})).sort((one, other) => other.part.length - one.part.length);
  for (const {part, at} of bySize) owners.fill(at, part.offset, part.offset + part.length);
  return owners;
}

function printable(code) {
  return code >= 0x20 && code < 0x7f ? String.fromCharCode(code) : '·';
}

const MOST_HEX = 24;

function makeParts(values, bytes, wrong) {
  if (bytes.parts.length === 0) return null;
  const rows = bytes.parts.map((part, at) => partRow(part, at, values, bytes, wrong));
  const heads = ['offset', 'bytes', 'field', 'value'].map((text, at) =>
    make('th', {scope: 'col', class: at === 0 ? 'number' : null, text}));
  return make('div', {class: 'scroller parts-box'}, make('table', {class: 'parts'},
    make('caption', {class: 'unseen', text: 'Parts of the message. A part that has the focus is marked in the dump.'}),
    make('thead', {}, make('tr', {}, ...heads)), make('tbody', {}, ...rows)));
}

function partRow(part, at, values, bytes, wrong) {
  const isWrong = wrong?.part === part;
  const hex = values.slice(part.offset, part.offset + part.length);
  const seen = hex.length > MOST_HEX ? `${hex.slice(0, MOST_HEX).join(' ')} …` : hex.join(' ');
  return make('tr', {class: isWrong ? 'part-row wrong' : 'part-row', tabindex: 0, data: {part: at}},
    make('th', {scope: 'row', class: 'number', text: asCount(part.offset)}),
    make('td', {class: 'hex', text: seen}),
    make('td', {}, make('bdi', {class: 'code', text: visible(part.path || part.what || '')}),
      part.path && part.what ? make('span', {class: 'what', text: visible(part.what)}) : null,
      isWrong ? make('span', {class: 'rule', text: `breaks ${visible(bytes.error.rule)}`}) : null),
    make('td', {}, part.value === null || part.value === undefined ? '' : longText(visible(part.value), 'code')));
}

/** A part under the pointer or with the focus lights up in the dump, and a byte its part in the table. */
function connectParts(view, parts) {
  if (parts.length === 0) return;
  const mark = (part) => {
    for (const element of view.querySelectorAll('.lit')) element.classList.remove('lit');
    if (part === undefined) return;
    const {offset, length} = parts[part];
    for (const element of view.querySelectorAll('.byte')) {
      const at = Number(element.dataset.at);
      element.classList.toggle('lit', at >= offset && at < offset + length);
    }
    view.querySelector(`tr[data-part="${part}"]`)?.classList.add('lit');
  };
  const dump = view.querySelector('.dump');
  const partOf = (event) => event.target.closest?.('[data-part]')?.dataset.part;
  view.addEventListener('pointerover', (event) => mark(partOf(event)));
  view.addEventListener('pointerleave', () => mark(undefined));
  view.addEventListener('focusin', (event) => {
    mark(partOf(event));
    if (event.target.closest('.part-row')) showByte(dump, '.lit');
  });
  view.addEventListener('focusout', () => mark(undefined));
}
