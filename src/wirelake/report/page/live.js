// A served page follows its lake: it polls for a new commit, and takes over the new report. The last minutes come
// earlier than the whole report, which takes long for a large lake.

const EVERY_MS = 1000;
const SLOWEST_MS = 60_000;
const HIDDEN_MS = 20_000;

const following = {failures: 0, timer: 0, state: null};

function startFollowing() {
  if (!settings.live) return;
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) poll();
  });
  showBadge(true);
  poll();
}

function pollLater() {
  clearTimeout(following.timer);
  const slowed = Math.min(SLOWEST_MS, EVERY_MS * 2 ** following.failures);
  following.timer = setTimeout(poll, document.hidden ? Math.max(HIDDEN_MS, slowed) : slowed);
}

async function poll() {
  clearTimeout(following.timer);
  try {
    const state = await fetchJson('state');
    const whole = state.commit === report.about.commit ? null : await fetchJson('report.json');
    const isRecent = [-1, (whole ?? report).recent?.commit].includes(state.recent);
    const newest = isRecent ? whole : withRecent(whole ?? report, await fetchJson('recent.json'));
    if (newest) takeOver(newest, whole ? parts : recentParts);
    Object.assign(following, {failures: 0, state});
  } catch {
    following.failures = Math.min(following.failures + 1, 6);
  }
  showBadge(following.failures === 0);
  pollLater();
}

/** A report with other last minutes. */
function withRecent(whole, {commit, step_us, queries, data}) {
  const recent = {commit, step_us};
  return {...whole, recent, queries: {...whole.queries, ...queries}, data: {...whole.data, ...data}};
}

async function fetchJson(path) {
  const response = await fetch(path, {cache: 'no-cache'});
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.json();
}

/** The new report in the place of the old; filter, scrolling, focus and what is open stay. */
function takeOver(newer, changed) {
  const place = scrollY;
  report = newer;
  keepingFocus(() => changed.forEach((part) => part.update('report')));
  scrollTo({top: place, behavior: 'instant'});
}

function showBadge(isThere) {
  const badge = byId('live-badge');
  const text = isThere ? `live · commit ${asCount(report.about.commit)}` : 'connection lost';
  badge.hidden = false;
  badge.classList.toggle('lost', !isThere);
  if (badge.textContent !== text) badge.textContent = text;
  byId('lag').textContent = isThere ? lagWords() : '';
}

/** How old the newest traffic is, and which sensors are further behind. */
function lagWords() {
  const {lag_seconds: lag = null, behind = []} = following.state ?? {};
  const late = behind.length > 0 ? `; further behind: ${visible(behind.join(', '))}` : '';
  return lag === null ? '' : `newest traffic ${lagTime(lag)} ago${late}`;
}

function lagTime(seconds) {
  return asDuration((seconds < 10 ? Math.round(seconds * 10) / 10 : Math.round(seconds)) * 1_000_000);
}
