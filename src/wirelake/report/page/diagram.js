// A conversation as a sequence diagram: a line for each who took part, an arrow for each message, in the order of time.
// It is a list box: arrow keys choose a message, and the choice is described in words.

const ROW = 44;
const MARKED_ROW = 62;
const PAUSE = 26;
const LEAST_PAUSE_US = 200_000;
const KINDS = new Set(['request', 'response', 'event', 'control']);
const MARKS = {violation: 'violation', quarantine: 'quarantined', gap: 'never captured'};
const FONTS = {};

const pen = document.createElement('canvas').getContext('2d');

/** The most of a text that fits a width, in the type of a class of the diagram. */
function fitText(text, width, kind) {
  pen.font = fontOf(kind);
  if (text.length < 400 && pen.measureText(text).width <= width) return text;
  let low = 0;
  let high = Math.min(text.length, 400);
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (pen.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low === 0 ? '' : `${text.slice(0, low).replace(/[\ud800-\udbff]$/, '')}…`;
}

function fontOf(kind) {
  if (!Object.hasOwn(FONTS, kind)) {
    const sample = draw('text', {class: kind});
    const holder = draw('svg', {class: 'unseen'}, sample);
    document.body.append(holder);
    const style = getComputedStyle(sample);
    FONTS[kind] = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    holder.remove();
  }
  return FONTS[kind];
}

class Diagram {
  /** `choose` is called with the number of an event when it becomes the chosen one. */
  constructor(conversation, choose) {
    this.conversation = conversation;
    this.choose = choose;
    this.chosen = -1;
    this.heads = draw('svg', {class: 'heads', 'aria-hidden': 'true'});
    this.list = draw('svg', {class: 'arrows', role: 'listbox', tabindex: 0, 'aria-label': this.words()});
    this.element = make('div', {class: 'diagram'}, make('div', {class: 'heads-box'}, this.heads), this.list);
    this.list.addEventListener('keydown', (event) => this.onKey(event));
    this.list.addEventListener('click', (event) => {
      const option = event.target.closest('[data-event]');
      if (option) this.select(Number(option.dataset.event), false);
    });
  }

  words() {
    const {events, lifelines} = this.conversation;
    const names = lifelines.map((lifeline) => visible(lifeline.label || lifeline.name));
    const left = [this.leftOutWords('before', 'earlier'), this.leftOutWords('after', 'later')].filter(Boolean);
    return [`Sequence of ${asCount(events.length)} messages between ${names.join(', ')}`, ...left].join('; ');
  }

  /** Draws for a width; called again when it changes. */
  drawFor(width) {
    const {lifelines, events} = this.conversation;
    const count = Math.max(2, lifelines.length);
    const gutter = width < 520 ? 74 : 92;
    const edge = width < 520 ? 66 : 100;
    const spacing = Math.max(width < 520 ? 150 : 170, Math.min(620, (width - gutter - 2 * edge) / (count - 1)));
    this.x = (at) => gutter + edge + at * spacing;
    this.spacing = spacing;
    this.edge = edge;
    this.whole = Math.max(width, this.x(count - 1) + edge);
    this.layRows(events);
    this.drawHeads(lifelines);
    this.drawBody(lifelines, events);
    if (this.chosen >= 0) this.showChosen();
  }

  /** Where each event lies: marked ones are taller, a long silence leaves room to say how long. */
  layRows(events) {
    this.rows = [];
    let top = 6 + this.leftOutRoom('before');
    let last = null;
    for (const event of events) {
      const silence = last !== null && event.ts !== null ? event.ts - last : 0;
      const pause = silence >= this.pauseFrom(events) ? silence : 0;
      if (pause) top += PAUSE;
      const height = isMarked(event) ? MARKED_ROW : ROW;
      this.rows.push({top, height, pause});
      top += height;
      last = event.ts ?? last;
    }
    this.height = top + 14 + this.leftOutRoom('after');
  }

  leftOutRoom(where) {
    return this.conversation.left_out?.[where] > 0 ? 30 : 0;
  }

  /** A silence is worth telling if it is long for this conversation. */
  pauseFrom(events) {
    if (this.pauseKnown === undefined) {
      const times = events.map((event) => event.ts).filter((ts) => ts !== null);
      const steps = times.slice(1).map((ts, at) => ts - times[at]).sort((one, other) => one - other);
      this.pauseKnown = Math.max(LEAST_PAUSE_US, 6 * (steps[steps.length >> 1] ?? 0));
    }
    return this.pauseKnown;
  }

  drawHeads(lifelines) {
    setSize(this.heads, this.whole, 46);
    this.heads.replaceChildren(...lifelines.map((lifeline, at) => {
      const name = visible(lifeline.name ?? '');
      const label = visible(lifeline.label || lifeline.name || '');
      const width = Math.min(this.spacing - 12, 2 * this.edge - 8);
      return draw('g', {}, draw('title', {text: label === name ? name : `${label} (${name})`}),
        draw('rect', {class: 'head', x: this.x(at) - width / 2, y: 4, width, height: 38, rx: 5}),
        centred('head-label', this.x(at), label === name ? 27 : 19, fitText(label, width - 14, 'head-label')),
        label === name ? null : centred('head-name', this.x(at), 35, fitText(name, width - 14, 'head-name')));
    }));
  }

  drawBody(lifelines, events) {
    setSize(this.list, this.whole, this.height);
    const lines = lifelines.map((_, at) =>
      draw('line', {class: 'lifeline', x1: this.x(at), x2: this.x(at), y1: 0, y2: this.height}));
    this.options = events.map((event, at) => this.drawEvent(event, at));
    const outside = [this.leftOut('before', 4, 'earlier'), this.leftOut('after', this.height - 32, 'later')];
    const behind = draw('g', {'aria-hidden': 'true'}, ...lines, ...outside);
    this.list.replaceChildren(behind, ...this.options);
  }

  leftOut(where, top, word) {
    const text = this.leftOutWords(where, word);
    if (!text) return null;
    const box = draw('rect', {x: 8, y: top, width: this.whole - 16, height: 22, rx: 4});
    return draw('g', {class: 'left-out'}, box, centred('left-out-text', this.whole / 2, top + 15, text));
  }

  leftOutWords(where, word) {
    const count = this.conversation.left_out?.[where] ?? 0;
    return count === 0 ? '' : `${asCount(count)} ${word} ${count === 1 ? 'message' : 'messages'} not shown`;
  }

  drawEvent(event, at) {
    const {top, height, pause} = this.rows[at];
    const kind = KINDS.has(event.kind) ? event.kind : 'control';
    const group = draw('g', {
      class: `step ${kind} ${isMarked(event) ? event.mark : 'plain'}`, role: 'option', id: `event-${at}`,
      'aria-selected': 'false', 'aria-label': eventWords(event, this.conversation), data: {event: at},
    });
    if (pause) group.append(draw('text', {class: 'pause', x: 8, y: top - 8, text: `${asDuration(pause)} later`}));
    group.append(draw('rect', {class: 'row', x: 2, y: top, width: this.whole - 4, height: height - 2, rx: 4}));
    if (event.mark === 'focus') {
      group.append(draw('rect', {class: 'focus-bar', x: 2, y: top + 4, width: 3, height: height - 10, rx: 1.5}));
    }
    group.append(draw('text', {class: 'when', x: 8, y: top + 33, text: this.relative(event)}));
    group.append(...this.arrow(event, top + 29), ...this.labels(event, top));
    return group;
  }

  relative(event) {
    const first = this.conversation.events.find((other) => other.ts !== null);
    if (event.ts === null || !first) return '';
    const passed = event.ts - first.ts;
    return passed === 0 ? '0' : `+${asDuration(passed)}`;
  }

  ends(event) {
    const last = this.conversation.lifelines.length - 1;
    const clamp = (value) => Math.min(Math.max(Number.isInteger(value) ? value : 0, 0), Math.max(last, 0));
    return [this.x(clamp(event.from)), this.x(clamp(event.to))];
  }

  arrow(event, y) {
    const [from, to] = this.ends(event);
    if (from === to) {
      const loop = draw('path', {class: 'shaft', d: `M${from} ${y - 6}h28v10h-22`, fill: 'none'});
      return [loop, head(from + 4, y + 4, -1, event.kind)];
    }
    const way = to > from ? 1 : -1;
    const middle = (from + to) / 2;
    const shaft = draw('line', {class: 'shaft', x1: from, x2: to - way * 6, y1: y, y2: y});
    return [shaft, head(to, y, way, event.kind), ...breakSign(event.mark, middle, y)];
  }

  labels(event, top) {
    const [from, to] = this.ends(event);
    const middle = from === to ? from + 40 : (from + to) / 2;
    const room = Math.max(Math.abs(to - from), this.spacing) - 22;
    const anchor = from === to ? 'start' : 'middle';
    const name = visible(event.message || MARKS[event.mark] || 'bytes');
    const shownName = fitText(name, room, 'name');
    pen.font = fontOf('name');
    const left = room - pen.measureText(`${shownName}  `).width;
    const extra = [event.address, event.status].filter((part) => (part ?? '') !== '').map(visible).join(' · ');
    const text = draw('text', {class: 'label', x: middle, y: top + 19, 'text-anchor': anchor},
      draw('tspan', {class: 'name', text: shownName}));
    if (extra && left > 30) text.append(draw('tspan', {class: 'extra', dx: 6, text: fitText(extra, left, 'extra')}));
    if (!isMarked(event)) return [text];
    const words = markWords(event);
    const below = fitText(words, room - 20, 'mark');
    pen.font = fontOf('mark');
    const start = middle - pen.measureText(below).width / 2 - 10;
    const mark = draw('text', {class: 'mark', x: start + 14, y: top + 49, text: below});
    return [text, markSign(start, top + 45, event.mark), mark];
  }

  /** Makes an event the chosen one, brings it into view and tells. */
  select(at, scroll = true) {
    if (at < 0 || at >= this.options.length || at === this.chosen) return;
    this.chosen = at;
    this.showChosen();
    if (scroll) this.options[at].scrollIntoView({block: 'center', inline: 'nearest'});
    this.choose(at);
  }

  showChosen() {
    this.options.forEach((option, at) => option.setAttribute('aria-selected', String(at === this.chosen)));
    this.list.setAttribute('aria-activedescendant', `event-${this.chosen}`);
  }

  onKey(event) {
    const last = this.options.length - 1;
    const steps = {ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity, PageDown: 10, PageUp: -10};
    if (!Object.hasOwn(steps, event.key)) return;
    event.preventDefault();
    this.select(Math.min(Math.max(this.chosen + steps[event.key], 0), last));
  }
}

function isMarked(event) {
  return Object.hasOwn(MARKS, event.mark);
}

/** What is wrong with an event: the rule, or how much is missing. */
function markWords(event) {
  if (event.mark === 'gap' && Number.isInteger(event.length)) return `${MARKS.gap}: ${asCount(event.length)} bytes`;
  return event.rule ? `${MARKS[event.mark]}: ${visible(event.rule)}` : MARKS[event.mark];
}

/** Requests and their like have a full head, replies an open one. */
function head(x, y, way, kind) {
  const shape = `M${x - way * 9} ${y - 5}L${x} ${y}L${x - way * 9} ${y + 5}`;
  if (kind === 'response') return draw('path', {class: 'head-open', d: shape});
  return draw('path', {class: 'head-full', d: `${shape}Z`});
}

/** What stands in the middle of an arrow that is no message: a break for missing bytes, a cross for bad ones. */
function breakSign(mark, x, y) {
  if (mark === 'gap') return [draw('path', {class: 'break', d: `M${x - 6} ${y + 6}l6 -12m0 12l6 -12`})];
  return mark === 'quarantine' ? [draw('path', {class: 'cross', d: `M${x - 5} ${y - 5}l10 10m0 -10l-10 10`})] : [];
}

function centred(kind, x, y, text) {
  return draw('text', {class: kind, x, y, 'text-anchor': 'middle', text});
}

/** Marks differ by shape, not only by colour: a triangle for a violation, a square for bytes, a circle for a gap. */
function markSign(x, y, mark) {
  const shapes = {
    violation: () => draw('path', {d: `M${x} ${y - 5}l6 11h-12z`}),
    quarantine: () => draw('rect', {x: x - 5, y: y - 5, width: 10.5, height: 10.5}),
    gap: () => draw('circle', {cx: x, cy: y, r: 5.5}),
  };
  const sign = centred('sign-text', x, y + 4, mark === 'gap' ? '?' : '!');
  return draw('g', {class: 'sign', 'aria-hidden': 'true'}, shapes[mark](), sign);
}

function setSize(picture, width, height) {
  picture.setAttribute('width', width);
  picture.setAttribute('height', height);
  picture.setAttribute('viewBox', `0 0 ${width} ${height}`);
}

/** An event in a sentence, for readers by voice and for the table below. */
function eventWords(event, conversation) {
  const who = (at) => visible(conversation.lifelines[at]?.label || conversation.lifelines[at]?.name || 'unknown');
  const parts = [visible(event.message || MARKS[event.mark] || 'bytes'), `from ${who(event.from)} to ${who(event.to)}`];
  if (event.address) parts.push(visible(event.address));
  if (event.status) parts.push(`status ${visible(event.status)}`);
  if (event.mark === 'focus') parts.push('the message in question');
  if (isMarked(event)) parts.push(markWords(event));
  return parts.join(', ');
}
