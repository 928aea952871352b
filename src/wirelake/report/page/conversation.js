// The dialog with one conversation. Its place is in the address of the page (#conversation=…&event=…), so it can be
// linked, and Back closes it.

const WHY = {
  violation: 'has a violation', in_doubt: 'in doubt', open: 'undecided', slow: 'among the slowest',
  failed: 'failed', sample: 'sample',
};
let opened = null;

/** Opens a conversation by way of the page's address. `event`: which message to look at first. */
function goToConversation(id, event = null) {
  const place = new URLSearchParams({conversation: id});
  if (event !== null && event !== undefined) place.set('event', event);
  history.pushState({opened: true}, '', `#${place}`);
  followAddress();
}

/** Shows what the address says: a conversation, or none. */
function followAddress() {
  const place = new URLSearchParams(location.hash.slice(1));
  const id = place.get('conversation');
  if (id === null) {
    if (byId('conversation').open) byId('conversation').close();
    return;
  }
  const event = /^\d+$/.test(place.get('event') ?? '') ? Number(place.get('event')) : null;
  if (opened?.id === id && byId('conversation').open) {
    if (event !== null) opened.diagram?.select(event);
  } else openConversation(id, event);
}

/** Back, if the page itself came here; else the address without the place, so that no page is left. */
function leaveConversation() {
  if (history.state?.opened) history.back();
  else {
    history.replaceState(null, '', location.pathname + location.search);
    byId('conversation').close();
  }
}

function startConversations() {
  const dialog = byId('conversation');
  byId('conversation-close').addEventListener('click', leaveConversation);
  dialog.addEventListener('cancel', (event) => {
    event.preventDefault();
    leaveConversation();
  });
  dialog.addEventListener('close', () => { opened = null; });
  closeOnBackdrop(dialog, leaveConversation);
  addEventListener('popstate', followAddress);
  addEventListener('hashchange', followAddress);
  new ResizeObserver(oncePerFrame(fitDiagram)).observe(byId('conversation-body'));
  join({update: (why) => { if (why === 'report') refreshConversation(); }});
}

async function openConversation(id, event) {
  opened = {id, diagram: null};
  const mine = opened;
  setHeading('Conversation', id);
  const isAsked = settings.live && !isHere(id);
  byId('conversation-body').replaceChildren(...(isAsked ? [emptyNote('Asking the server …')] : []));
  openDialog(byId('conversation'));
  const found = await findConversation(id);
  if (opened !== mine) return;
  if (found === null) byId('conversation-body').replaceChildren(notHere(id));
  else showConversation(found, event);
}

/** From the page, else from its server; null if neither has it, or if this browser cannot open what the page has. */
async function findConversation(id) {
  try {
    return await readConversation(id) ?? (settings.live ? await fetchConversation(id) : null);
  } catch {
    return null;
  }
}

function notHere(id) {
  const name = make('p', {class: 'note'}, longText(visible(id), 'code'));
  if (isHere(id)) {
    const text = 'This browser is too old to unpack the conversation.';
    return make('div', {class: 'not-here'}, make('p', {text}), name);
  }
  if (settings.live) {
    const text = 'The lake does not have this conversation, or the server cannot be reached.';
    return make('div', {class: 'not-here'}, make('p', {text}), name);
  }
  const text = 'This conversation is not in the page. As far as there is room, the page has conversations with '
    + 'violations, in doubt, slow or failed, and a sample.';
  const verb = make('code', {text: 'wirelake report LAKE --serve'});
  const more = make('p', {}, 'With ', verb, ', every conversation of the lake opens.');
  return make('div', {class: 'not-here'}, make('p', {text}), more, name);
}

async function fetchConversation(id) {
  const response = await fetch(`conversation?id=${encodeURIComponent(id)}`);
  return response.ok ? response.json() : null;
}

function setHeading(kind, title) {
  byId('conversation-kind').textContent = kind;
  byId('conversation-title').replaceChildren(longText(visible(title)));
}

function showConversation(conversation, event) {
  const protocol = visible(protocolName(conversation.protocol));
  setHeading(`${asWords(conversation.kind)} · ${protocol}`, conversation.title || conversation.id);
  const detail = make('div', {class: 'event-view', 'aria-label': 'The chosen message', role: 'region', tabindex: 0});
  const diagram = new Diagram(conversation, (at) => {
    detail.replaceChildren(...eventView(conversation.events[at], conversation));
    detail.scrollTop = 0;
    rememberEvent(conversation.id, at);
  });
  const branches = make('div', {class: 'branches-box'});
  const left = make('div', {class: 'sequence'},
    make('p', {class: 'why'}, ...aboutTags(conversation)), branches, diagram.element, eventTable(conversation));
  byId('conversation-body').replaceChildren(left, detail);
  opened = {id: conversation.id, conversation, diagram, branches, left, width: 0, text: JSON.stringify(conversation)};
  fitDiagram();
  if (conversation.events.length === 0) detail.append(emptyNote('This conversation has no messages.'));
  diagram.list.focus({preventScroll: true});
  diagram.select(startAt(conversation, event), event !== null || conversation.kind !== 'transaction');
}

/** The message asked for, else the one that the conversation is about, else the first with a mark, else the first. */
function startAt(conversation, event) {
  const {events} = conversation;
  if (event !== null && event < events.length) return event;
  const focus = events.findIndex((one) => one.mark === 'focus');
  const marked = events.findIndex(isMarked);
  return focus >= 0 ? focus : Math.max(marked, 0);
}

/** Why it is here, and what of it is not. */
function aboutTags(conversation) {
  const between = conversation.left_out?.between ?? 0;
  const text = `${asCount(between)} ${between === 1 ? 'message' : 'messages'} in between not shown`;
  return [...whyTags(conversation), between > 0 ? make('span', {class: 'note', text}) : null];
}

/** The chosen message in the address, without a new step for Back. */
function rememberEvent(id, event) {
  const place = new URLSearchParams({conversation: id, event});
  history.replaceState(history.state, '', `#${place}`);
}

function eventTable(conversation) {
  const details = make('details', {class: 'as-table'}, make('summary', {text: 'As table'}));
  details.addEventListener('toggle', () => {
    if (details.open && details.childElementCount === 1) details.append(eventRows(conversation));
  });
  return details;
}

function eventRows(conversation) {
  const first = conversation.events.find((one) => one.ts !== null)?.ts ?? null;
  const rows = conversation.events.map((event) => [
    event.ts === null || first === null ? NOTHING : asDuration(event.ts - first),
    ...[event.from, event.to].map((at) => endName(conversation.lifelines[at])),
    ...[event.message, event.address, event.status].map((value) => longText(format(value, 'text'), 'code')),
    isMarked(event) ? markWords(event) : '',
  ]);
  const heads = ['after', 'from', 'to', 'message', 'address', 'status', 'note'];
  return plainTable('Messages by time', heads, rows);
}

/** Draws the pictures for the width that there is. */
function fitDiagram() {
  if (!opened?.diagram) return;
  const width = opened.left.clientWidth;
  if (width === 0 || width === opened.width) return;
  opened.width = width;
  opened.diagram.drawFor(width);
  const {branches} = opened.conversation;
  const timeline = branches?.length > 0 ? branchTimeline(branches, Math.max(320, width - 32)) : null;
  opened.branches.replaceChildren(...(timeline ? [timeline] : []));
}

/** A new report: the open conversation is shown anew if it has changed, with the same message chosen, in the same
    place. */
async function refreshConversation() {
  const mine = opened;
  if (!mine?.conversation) return;
  const newer = await findConversation(mine.id);
  if (opened !== mine || !newer || JSON.stringify(newer) === mine.text) return;
  const path = pathTo(document.activeElement);
  const places = [...byId('conversation-body').children].map((side) => side.scrollTop);
  showConversation(newer, mine.diagram.chosen);
  [...byId('conversation-body').children].forEach((side, at) => { side.scrollTop = places[at]; });
  document.querySelector(path)?.focus({preventScroll: true});
}
