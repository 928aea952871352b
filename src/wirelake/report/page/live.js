// A served page follows its lake: it polls for a new commit, and takes over the new report.

const EVERY_MS = 2000;
const SLOWEST_MS = 60_000;
const HIDDEN_MS = 20_000;

const following = {failures: 0, timer: 0};

function startFollowing() {
  if (!settings.live) return;
  showBadge(true);
  document.addEventListener('visibilitychange', () => {
    if (!document.hidden) poll();
  });
  pollLater();
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
    if (isNewer(state)) takeOver(await fetchJson('report.json'));
    following.failures = 0;
  } catch {
    following.failures = Math.min(following.failures + 1, 6);
  }
  showBadge(following.failures === 0);
  pollLater();
}

function isNewer(state) {
  return state.commit !== report.about.commit;
}

async function fetchJson(path) {
  const response = await fetch(path, {cache: 'no-cache'});
  if (!response.ok) throw new Error(`${path}: ${response.status}`);
  return response.json();
}

/** The new report in the place of the old; filter, scrolling, focus and what is open stay. */
function takeOver(newer) {
  const place = scrollY;
  report = newer;
  keepingFocus(() => updateParts('report'));
  scrollTo({top: place, behavior: 'instant'});
}

function showBadge(isThere) {
  const badge = byId('live-badge');
  const text = isThere ? `live · commit ${asCount(report.about.commit)}` : 'connection lost';
  badge.hidden = false;
  badge.classList.toggle('lost', !isThere);
  if (badge.textContent !== text) badge.textContent = text;
}
