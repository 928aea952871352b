// What the page shows, in its order.

const TILES = [
  {label: 'Messages', column: 'messages', href: 'topology', parts: [['connections', 'connections'], ['sessions', 'sessions ended'], ['open_sessions', 'still open']]},
  {label: 'Bytes', column: 'bytes_in', href: 'overview', parts: [['bytes_decoded', 'in messages'], ['bytes_pending', 'not complete yet'], ['bytes_missing', 'never captured']]},
  {label: 'Requests', column: 'requests', href: 'latency', parts: [['ok', 'ok'], ['open_requests', 'waiting for an answer']]},
  {label: 'Latency, 95th percentile', column: 'p95_us', href: 'latency', parts: [['p50_us', 'median'], ['p99_us', '99th percentile'], ['max_us', 'slowest']]},
  {label: 'Errors', column: 'errors', href: 'table-failures', tone: 'bad', parts: [['timeouts', 'time-outs'], ['unanswered', 'unanswered']]},
  {label: 'Transactions in doubt', column: 'in_doubt', href: 'transactions', tone: 'bad',
    parts: [['transactions', 'transactions'], ['committed', 'committed'], ['rolled_back', 'rolled back'], ['read_only', 'read only'], ['open_transactions', 'open']]},
  {label: 'Violations', column: 'violations', href: 'violations', tone: 'bad', parts: [['quarantined_ranges', 'ranges of bytes that are no message']]},
  {label: 'Quarantined', column: 'bytes_quarantined', href: 'violations', tone: 'warn', parts: [['bytes_in', 'captured in all']]},
];

const SECTIONS = [
  {id: 'overview', title: 'Overview', about: 'How much was said, in which protocol, and how it went.', build: () => [
    new Tiles('overview', TILES), trafficChart(), outcomesChart(), quarantineChart(),
    new AnswerTable({query: 'protocols', title: 'Protocols', bars: ['messages'], nothing: 'No protocol was spoken in this lake.'}),
  ]},
  {id: 'latency', title: 'Latency', about: 'How long answers took, and where they did not come.', build: () => [
    latencyChart(), heatChart(),
    new AnswerTable({query: 'slow_addresses', title: 'Slowest addresses', order: ['address'], bars: ['p95_us'], nothing: 'No address was asked anything.'}),
    new AnswerTable({query: 'slow_exchanges', title: 'Slowest requests', bars: ['latency_us'], nothing: 'No request was answered.'}),
    new AnswerTable({query: 'failures', title: 'Failures', order: ['address'], bars: ['count'], nothing: 'No request failed.'}),
    new AnswerTable({query: 'busy_addresses', title: 'Busiest addresses', order: ['address'], bars: ['messages'], nothing: 'No message went to an address.'}),
  ]},
  {id: 'topology', title: 'Topology', about: 'Who talks to whom.', build: () => [
    topologyChart(), new AnswerTable({query: 'topology', title: 'Pairs of client and server', bars: ['bytes'], nothing: 'No connections in this lake.'}),
  ]},
  {id: 'sessions', title: 'Sessions', about: 'Connections, from their handshake to their end; those with trouble first.', build: () => [
    new Proportions({
      query: 'session_ends', column: 'count', title: 'How they began and ended', nothing: 'No session has ended yet.', tone: endTone,
      label: (cells) => `${visible(protocolName(cells.protocol))}: handshake ${asWords(cells.handshake ?? 'none')}, ${endWords(cells.ended)}`,
    }),
    new AnswerTable({query: 'sessions', title: 'Sessions', order: ['client', 'server', 'protocol'], nothing: 'No session has ended yet.'}),
  ]},
  {id: 'transactions', title: 'Transactions', about: 'Distributed transactions; those in doubt first. A row opens the timeline of its two phases.', build: () => [
    new Proportions({
      query: 'transaction_outcomes', column: 'count', title: 'Outcomes', nothing: 'No distributed transactions in this lake.',
      tone: (cells) => toneOf(cells.outcome), label: (cells) => asWords(cells.outcome),
    }),
    new AnswerTable({query: 'transactions', title: 'Transactions', nothing: 'No distributed transactions in this lake.'}),
  ]},
  {id: 'violations', title: 'Violations', about: 'Good messages at the wrong moment, and bytes that are no message. A row opens its bytes.', build: () => [
    new AnswerTable({query: 'rules', title: 'By rule', order: ['rule'], bars: ['count'], nothing: 'No rule was broken.'}),
    new AnswerTable({query: 'violations', title: 'Violations', order: ['ts_us', 'rule', 'protocol', 'message', 'path', 'detail'], nothing: 'No rule was broken.'}),
  ]},
  {id: 'conversations', title: 'Conversations', about: 'What this page holds of the lake, and why.', build: () => [
    new AnswerTable({query: 'held', title: 'Held here', nothing: 'Nothing is held.'}), new ConversationList(),
  ]},
  {id: 'open', title: 'Open', about: 'What is not decided yet: requests without an answer, sessions without an end.', build: () => [
    new AnswerTable({query: 'open', title: 'Not decided yet', nothing: 'Everything is decided.'}),
  ]},
  {id: 'about', title: 'About', about: 'How to ask the lake yourself.', build: () => [new Questions()]},
];

function endWords(ended) {
  return ended === null ? 'end not seen' : asWords(ended);
}

function endTone(cells) {
  if (cells.handshake === 'refused') return 'bad';
  return cells.ended === 'reset' ? 'warn' : cells.ended === 'closed' ? 'good' : 'plain';
}

/** Builds all sections and the navigation to them. */
function startSections() {
  for (const section of SECTIONS) {
    byId('nav').append(make('li', {}, make('a', {href: `#${section.id}`, text: section.title})));
    const members = section.build().map(join);
    byId('main').append(make('section', {id: section.id, 'aria-labelledby': `${section.id}-title`, class: 'section'},
      make('header', {class: 'section-head'}, make('h2', {id: `${section.id}-title`, text: section.title}), make('p', {text: section.about})),
      make('div', {class: 'grid'}, ...members.map((member) => member.element))));
  }
  followScrolling();
}

/** The navigation shows which section is read. */
function followScrolling() {
  const links = new Map([...byId('nav').querySelectorAll('a')].map((link) => [link.hash.slice(1), link]));
  const seen = new Set();
  const observer = new IntersectionObserver((entries) => {
    for (const {target, isIntersecting} of entries) seen[isIntersecting ? 'add' : 'delete'](target.id);
    const current = SECTIONS.find(({id}) => seen.has(id))?.id;
    if (!current) return;
    for (const [id, link] of links) {
      if (id === current) link.setAttribute('aria-current', 'true');
      else link.removeAttribute('aria-current');
    }
  }, {rootMargin: '-140px 0px -55% 0px'});
  for (const {id} of SECTIONS) observer.observe(byId(id));
}

/** The conversations that lie in the page. */
class ConversationList {
  constructor() {
    this.all = false;
    this.count = make('p', {class: 'rows'});
    this.list = make('ul', {class: 'conversations'});
    this.foot = make('footer', {class: 'panel-foot'});
    const framed = panel({title: 'In this page', note: 'Each opens as a sequence diagram.', wide: true}, this.list, this.foot);
    framed.side.prepend(this.count);
    this.element = framed.element;
    this.update('report');
  }

  update(why) {
    if (why === 'theme') return;
    const everyone = Object.values(report.conversations);
    const found = everyone.filter((one) => protocolWanted(one.protocol) && textWanted(conversationTexts(one)));
    this.count.textContent = found.length < everyone.length ? `${asCount(found.length)} of ${asCount(everyone.length)} match` : '';
    this.list.replaceChildren(...(this.all ? found : found.slice(0, 12)).map(conversationItem));
    this.foot.replaceChildren();
    if (everyone.length === 0) this.foot.append(emptyNote('The page holds no conversations.'));
    else if (found.length === 0) this.foot.append(emptyNote('No conversation matches the filter.'));
    if (found.length > 12) {
      const text = this.all ? 'Show the first 12' : `Show all ${asCount(found.length)}`;
      this.foot.append(make('button', {type: 'button', class: 'quiet more', text, on: {click: () => { this.all = !this.all; this.update('rows'); }}}));
    }
  }
}

/** What of a conversation the search looks at. */
function conversationTexts(one) {
  const events = one.events.flatMap((event) => [event.message, event.address, event.rule, event.correlation, event.connection]);
  return [one.id, one.title, one.kind, ...(one.why ?? []), ...one.lifelines.flatMap((line) => [line.name, line.label]), ...new Set(events)];
}

function conversationItem(one) {
  return make('li', {}, make('button', {type: 'button', class: 'conversation-item', 'aria-haspopup': 'dialog', on: {click: () => goToConversation(one.id)}},
    protocolTag(one.protocol), make('span', {class: 'item-title'}, make('bdi', {text: shorten(visible(one.title || one.id), 160)})),
    make('span', {class: 'why'}, ...(one.why ?? []).map((why) => make('span', {class: `status ${toneOf(why)}`, text: Object.hasOwn(WHY, why) ? WHY[why] : visible(why)})))));
}

/** All queries of the page, to be copied and asked anew. */
class Questions {
  constructor() {
    this.list = make('ul', {class: 'questions'});
    const text = make('div', {class: 'prose'},
      make('p', {}, 'Every number on this page is the answer to a query on the tables of the lake, which are Parquet files that any engine reads. ',
        'The button ', make('span', {class: 'sql-button', 'aria-hidden': 'true', text: 'SQL'}), ' beside each table and chart shows its query. ',
        'To ask it yourself with DuckDB, make a view of each table first:'),
      this.example = make('pre', {tabindex: 0, 'aria-label': 'How to make a view'}));
    this.element = panel({title: 'Ask the lake', wide: true}, text, this.list).element;
    this.update('report');
  }

  update(why) {
    if (why !== 'report') return;
    const path = visible(report.about.lake).replaceAll("'", "''");
    this.example.textContent = ['exchanges', 'sessions', 'transactions', 'addresses', 'violations', 'open'].map((table) =>
      `create view gold_${table} as\n  select * from read_parquet('${path}/gold/${table}/*/*.parquet', hive_partitioning = true);`).slice(0, 2).join('\n');
    this.list.replaceChildren(...Object.entries(report.queries).map(([name, {title}]) =>
      make('li', {}, sqlButton(name, title), make('span', {text: visible(title)}))));
  }
}
