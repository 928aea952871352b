// What the page shows, in its order.

const TILES = [
  {label: 'Messages', column: 'messages', href: 'topology',
    parts: [['connections', 'connections', 'connection'], ['sessions', 'sessions ended', 'session ended'],
      ['open_sessions', 'still open']]},
  {label: 'Bytes', column: 'bytes_in', href: 'overview',
    parts: [['bytes_decoded', 'in messages'], ['bytes_pending', 'incomplete'],
      ['bytes_missing', 'never captured']]},
  {label: 'Requests', column: 'requests', href: 'latency',
    parts: [['ok', 'ok'], ['no_reply_wanted', 'no reply wanted'],
      ['open_requests', 'waiting for a reply'], ['passed_on', 'seen on both sides of a broker']]},
  {label: 'Latency, 95th percentile', column: 'p95_us', href: 'latency',
    parts: [['p50_us', 'median'], ['p99_us', '99th percentile'], ['max_us', 'slowest']]},
  {label: 'Errors', column: 'errors', href: 'table-failures', tone: 'bad',
    parts: [['timeouts', 'time-outs', 'time-out'], ['unanswered', 'unanswered']]},
  {label: 'Transactions in doubt', column: 'in_doubt', href: 'transactions', tone: 'bad',
    parts: [['transactions', 'transactions', 'transaction'], ['committed', 'committed'],
      ['rolled_back', 'rolled back'], ['read_only', 'read only'], ['open_transactions', 'open']]},
  {label: 'Violations', column: 'violations', href: 'violations', tone: 'bad',
    parts: [['quarantined_ranges', 'undecodable ranges', 'undecodable range']]},
  {label: 'Quarantined', column: 'bytes_quarantined', href: 'violations', tone: 'warn',
    parts: [['bytes_in', 'captured']]},
];

const SECTIONS = [
  {id: 'overview', title: 'Overview', build: buildOverview,
    about: 'How many messages, in which protocol, and what became of requests.'},
  {id: 'latency', title: 'Latency', about: 'How long replies took, and which requests failed.', build: buildLatency},
  {id: 'topology', title: 'Topology', about: 'Who talks to whom.', build: buildPairs},
  {id: 'sessions', title: 'Sessions', build: buildSessions,
    about: 'Connections from handshake to end; troubled ones first.'},
  {id: 'transactions', title: 'Transactions', build: buildTransactions,
    about: 'Distributed transactions; those in doubt first. A row opens the timeline of its two phases.'},
  {id: 'violations', title: 'Violations', build: buildViolations,
    about: 'Valid messages sent out of sequence, and undecodable bytes. A row opens its bytes.'},
  {id: 'conversations', title: 'Conversations', about: 'Conversations in this page, and why they were chosen.', build: buildHeld},
  {id: 'open', title: 'Open', build: buildOpen,
    about: 'Undecided so far: requests without a reply, sessions without an end.'},
  {id: 'about', title: 'About', about: 'How to query the lake yourself.', build: () => [new QueryList()]},
];

const RECENT_TILES = [
  {label: 'Messages', column: 'messages', href: 'overview',
    parts: [['message_bytes', 'in all'], ['open_sessions', 'open sessions', 'open session']]},
  {label: 'Requests', column: 'requests', href: 'latency',
    parts: [['ok', 'ok'], ['open_requests', 'waiting for a reply now'], ['oldest_open_us', 'the longest wait']]},
  {label: 'Latency, 95th percentile', column: 'p95_us', href: 'latency',
    parts: [['p50_us', 'median'], ['max_us', 'slowest']]},
  {label: 'Errors', column: 'errors', href: 'table-failures', tone: 'bad',
    parts: [['timeouts', 'time-outs', 'time-out'], ['unanswered', 'unanswered'],
      ['violations', 'violations', 'violation'], ['quarantined_bytes', 'quarantined']]},
];

const recentParts = [];

/** What a served page shows of the last minutes; a file has none. */
const NOW = {id: 'now', title: 'Now', build: buildNow,
  about: 'The last minutes of the traffic, by capture time; renewed with each commit.'};

function buildNow() {
  const frame = {query: 'recent', title: 'The last minute', note: 'All protocols. Requests count once they are decided.'};
  recentParts.push(new Tiles(frame, RECENT_TILES), recentChart());
  return recentParts;
}

function buildOverview() {
  return [
    new Tiles({query: 'overview', title: 'The lake in figures', note: 'All protocols, the whole time.'}, TILES),
    trafficChart(), outcomesChart(), quarantineChart(),
    new ResultTable({
      query: 'protocols', title: 'Protocols', bars: ['messages'], nothing: 'No protocol in this lake.',
    }),
  ];
}

function buildLatency() {
  return [
    latencyChart(), heatChart(),
    new ResultTable({
      query: 'slow_addresses', title: 'Slowest addresses', order: ['address'], bars: ['p95_us'],
      nothing: 'No address received a request.',
    }),
    new ResultTable({
      query: 'slow_exchanges', title: 'Slowest requests', bars: ['latency_us'], nothing: 'No request got a reply.',
    }),
    new ResultTable({
      query: 'failures', title: 'Failures', order: ['address'], bars: ['count'], nothing: 'No request failed.',
    }),
    new ResultTable({
      query: 'busy_addresses', title: 'Busiest addresses', order: ['address'], bars: ['messages'],
      nothing: 'No message went to an address.',
    }),
  ];
}

function buildPairs() {
  return [
    topologyChart(),
    new ResultTable({
      query: 'topology', title: 'Pairs of client and server', bars: ['bytes'], nothing: 'No connections in this lake.',
    }),
  ];
}

function buildSessions() {
  const nothing = 'No connections in this lake.';
  return [
    new Proportions({
      query: 'session_ends', column: 'count', title: 'Handshakes and ends', nothing,
      tone: endTone, label: endWords,
    }),
    new ResultTable({query: 'sessions', title: 'Sessions', order: ['client', 'server', 'protocol'], nothing}),
  ];
}

function endWords(cells) {
  const ended = cells.ended === null || cells.ended === 'not seen' ? 'end not seen' : asWords(cells.ended);
  return `${visible(protocolName(cells.protocol))}: handshake ${asWords(cells.handshake ?? 'none')}, ${ended}`;
}

function endTone(cells) {
  if (cells.handshake === 'refused') return 'bad';
  return cells.ended === 'reset' ? 'warn' : cells.ended === 'closed' ? 'good' : 'plain';
}

function buildTransactions() {
  const nothing = 'No distributed transactions in this lake.';
  return [
    new Proportions({
      query: 'transaction_outcomes', column: 'count', title: 'Outcomes', nothing,
      tone: (cells) => toneOf(cells.outcome), label: (cells) => asWords(cells.outcome),
    }),
    new ResultTable({query: 'transactions', title: 'Transactions', order: ['gtrid'], nothing}),
  ];
}

function buildViolations() {
  const nothing = 'No rule was broken.';
  const order = ['ts_us', 'rule', 'protocol', 'message', 'path', 'detail'];
  return [
    new ResultTable({query: 'rules', title: 'By rule', order: ['rule'], bars: ['count'], nothing}),
    new ResultTable({query: 'violations', title: 'Violations', order, nothing}),
  ];
}

const HELD_NOTE = 'Of the whole lake: the slowest requests with a reply, and a sample of everything.';

function buildHeld() {
  const held = new ResultTable({query: 'held', title: 'Conversations in this page', note: HELD_NOTE, nothing: 'There are none.'});
  return [held, new ConversationList()];
}

function buildOpen() {
  return [new ResultTable({query: 'open', title: 'Undecided', nothing: 'Everything is decided.'})];
}

/** Builds all sections and the navigation to them. */
function startSections() {
  if (report.recent) SECTIONS.unshift(NOW);
  for (const {id, title, about, build} of SECTIONS) {
    byId('nav').append(make('li', {}, make('a', {href: `#${id}`, text: title})));
    const head = make('header', {class: 'section-head'},
      make('h2', {id: `${id}-title`, text: title}), make('p', {text: about}));
    const members = build().map(join).map((member) => member.element);
    byId('main').append(make('section', {id, 'aria-labelledby': `${id}-title`, class: 'section'},
      head, make('div', {class: 'grid'}, ...members)));
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
