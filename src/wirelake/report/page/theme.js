// Light and dark: the system's choice, or the one made here, which is remembered where the browser lets it be.

const systemIsDark = matchMedia('(prefers-color-scheme: dark)');
let printing = false;

function isDark() {
  if (printing) return false;
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : systemIsDark.matches;
}

/** The colours of charts, from the style sheet, so that there is one place that decides them. */
function themeColours() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  return {
    colour,
    text: colour('text'), muted: colour('muted'), line: colour('line'), surface: colour('surface'),
    font: getComputedStyle(document.body).fontFamily,
    protocol: (name) => colour(`protocol-${colourIndex(name)}`),
  };
}

function startTheme() {
  const button = byId('theme');
  const show = () => {
    const other = isDark() ? 'light' : 'dark';
    button.textContent = other === 'dark' ? 'Dark' : 'Light';
    button.setAttribute('aria-label', `Use the ${other} theme`);
  };
  button.addEventListener('click', () => {
    const chosen = isDark() ? 'light' : 'dark';
    document.documentElement.dataset.theme = chosen;
    remember(chosen);
    show();
    updateParts('theme');
  });
  systemIsDark.addEventListener('change', () => {
    show();
    updateParts('theme');
  });
  show();
}

function remember(theme) {
  try {
    localStorage.setItem('wirelake-theme', theme);
  } catch {
    // No storage here: the choice holds until the page is left.
  }
}

/** Paper is light, and as wide as it is: charts are drawn anew for it, and drawn back. */
function startPrinting() {
  const turn = (on) => {
    if (printing === on) return;
    printing = on;
    document.documentElement.classList.toggle('printing', on);
    updateParts('theme');
  };
  addEventListener('beforeprint', () => turn(true));
  addEventListener('afterprint', () => turn(false));
  matchMedia('print').addEventListener('change', (event) => turn(event.matches));
}
