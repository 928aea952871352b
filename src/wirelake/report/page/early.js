// Before anything is shown: the theme that was chosen here before, so that the page does not flash.
(function () {
  'use strict';
  try {
    const chosen = localStorage.getItem('wirelake-theme');
    if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
  } catch {
    // No storage here: the system's choice holds.
  }
})();
