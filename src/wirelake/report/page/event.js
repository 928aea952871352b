// One message of a conversation, looked at closely: where and when it was, what is wrong, its bytes, its fields.

/** The view of an event; the conversation's times count from `first`. */
function eventView(event, conversation) {
  const line = (at) => conversation.lifelines[at];
  const first = conversation.events.find((other) => other.ts !== null)?.ts ?? null;
  const route = make('p', {class: 'route'}, endName(line(event.from)), ' → ', endName(line(event.to)));
  const kind = KINDS.has(event.kind) ? event.kind : 'control';
  return [
    make('header', {class: 'event-head'},
      make('h3', {}, longText(visible(event.message || MARKS[event.mark] || 'bytes'), 'code')),
      event.kind ? make('span', {class: `kind ${kind}`, text: asWords(event.kind)}) : null),
    route,
    isMarked(event) || event.rule || event.bytes?.error ? faultNote(event) : null,
    eventFacts(event, first),
    event.bytes ? bytesView(event.bytes, event.direction) : make('p', {class: 'note', text: noBytes(event)}),
    event.fields ? fieldsView(event.fields) : null,
  ].filter(Boolean);
}

function endName(lifeline) {
  const name = visible(lifeline?.name ?? 'unknown');
  const label = lifeline?.label ? visible(lifeline.label) : '';
  return make('bdi', {class: 'code', text: shorten(label && label !== name ? `${label} (${name})` : name, LONG)});
}

/** What is wrong: the rule, where in the bytes, and the sentence. */
function faultNote(event) {
  const error = event.bytes?.error ?? null;
  const rule = event.rule || error?.rule || '';
  const detail = event.detail || error?.detail || '';
  const title = isMarked(event) ? markWords({...event, rule}) : visible(rule);
  const field = error?.path ? ` in ${visible(error.path)}` : '';
  const place = Number.isInteger(error?.offset) ? ` at byte ${asCount(error.offset)}` : '';
  return make('div', {class: `fault ${event.mark === 'gap' ? 'gap' : ''}`},
    make('p', {}, make('strong', {text: title}), field, place),
    detail ? make('p', {}, longText(visible(detail))) : null);
}

function noBytes(event) {
  return event.mark === 'gap' ? 'These bytes were never captured.' : 'This page does not have the bytes of this message.';
}

function eventFacts(event, first) {
  const direction = event.direction ? asWords(event.direction) : '';
  const facts = [
    ['time', event.ts === null ? null : `${asExactTime(event.ts)} UTC`],
    ['since first message', event.ts === null || first === null ? null : asDuration(event.ts - first)],
    ['protocol', event.protocol], ['address', event.address], ['status', event.status],
    ['correlation', event.correlation],
    ['bytes', Number.isInteger(event.length) ? asCount(event.length) : null],
    ['offset', Number.isInteger(event.offset) ? `${asCount(event.offset)} ${direction}` : null],
    ['connection', event.connection], ['sensor', hasSensors() ? event.sensor : null],
  ].filter(([, value]) => value !== null && value !== undefined && value !== '');
  return make('dl', {class: 'event-facts'}, ...facts.map(([name, value]) =>
    make('div', {}, make('dt', {text: name}), make('dd', {}, longText(visible(value), 'code')))));
}

const MOST_FIELDS = 400;

function fieldsView(fields) {
  const rows = [];
  flatten('', fields, rows);
  if (rows.length === 0) return null;
  const shown = rows.slice(0, MOST_FIELDS).map(([path, value]) => make('tr', {},
    make('th', {scope: 'row'}, make('bdi', {class: 'code', text: shorten(visible(path), LONG)})),
    make('td', {}, longText(visible(value), 'code'))));
  const more = rows.length - shown.length;
  return make('section', {class: 'fields', 'aria-label': 'Fields'}, make('h4', {text: 'Fields'}),
    make('table', {}, make('caption', {class: 'unseen', text: 'Fields of the message'}), make('tbody', {}, ...shown)),
    more > 0 ? make('p', {class: 'note', text: `${asCount(more)} more fields are not shown.`}) : null);
}

/** A tree of values as paths: {a: {b: [1]}} as a.b[0]. */
function flatten(path, value, rows) {
  if (Array.isArray(value) && value.length > 0) value.forEach((item, at) => flatten(`${path}[${at}]`, item, rows));
  else if (value !== null && typeof value === 'object' && !Array.isArray(value) && Object.keys(value).length > 0) {
    for (const [name, item] of Object.entries(value)) flatten(path ? `${path}.${name}` : name, item, rows);
  } else rows.push([path, value === null ? NOTHING : typeof value === 'object' ? JSON.stringify(value) : value]);
}
