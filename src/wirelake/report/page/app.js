// Puts the page together.

/** Which lake, which time, which commit. */
function showMasthead() {
  const {lake, commit, commit_at: committed, captures, made, wirelake} = report.about;
  byId('lake-name').replaceChildren(...lakeName(visible(lake)));
  const facts = [
    ['traffic', spanWords()], ['captures', asCount(captures)], ...(hasSensors() ? [['sensors', sensorNames()]] : []),
    ['commit', committed ? `${asCount(commit)}, ${isoMinute(committed)}` : asCount(commit)],
    ['made', `${isoMinute(made)} by wirelake ${visible(wirelake)}`],
  ];
  byId('lake-facts').replaceChildren(...facts.map(([name, value]) =>
    make('div', {}, make('dt', {text: name}), make('dd', {}, value))));
}

/** How many sensors there are, and which. */
function sensorNames() {
  const {sensors, sensor_count: count} = report.about;
  const more = count > sensors.length ? ', …' : '';
  return longText(visible(`${asCount(count)}: ${sensors.join(', ')}${more}`));
}

/** The path of a lake, in which its own name stands out. */
function lakeName(path) {
  if (path.length > LONG) return [longText(path)];
  const cut = path.replace(/\/+$/, '').lastIndexOf('/') + 1;
  return [make('bdi', {class: 'folder', text: path.slice(0, cut)}), make('bdi', {text: path.slice(cut)})];
}

/** An ISO time to the minute. */
function isoMinute(text) {
  const time = Date.parse(text);
  return Number.isNaN(time) ? visible(text) : `${new Date(time).toISOString().slice(0, 16).replace('T', ' ')} UTC`;
}

/** From when to when, in the figures of the overview. */
function spanWords() {
  const [first, last] = ['first_us', 'last_us'].map((column) => valueAt('overview', 0, column));
  if (first === null || last === null) return 'without times';
  const end = figure('overview', 0, 'last_us', oneDay() ? 'clock' : 'time');
  return make('span', {}, figure('overview', 0, 'first_us'), ' to ', end, ' UTC');
}

join({update: (why) => { if (why === 'report') showMasthead(); }});
showMasthead();
startTheme();
startSqlDialog();
startSections();
startCharts();
startFilters();
startConversations();
startPrinting();
startFollowing();
followAddress();
document.documentElement.dataset.ready = 'true';
