// Elements. Text only ever becomes a text node, so nothing that lies in a lake can become markup.

const SVG = 'http://www.w3.org/2000/svg';

/** An HTML element; properties are attributes, besides `text`, `on` (events), `data` and `style` (properties). */
function make(tag, properties, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** An SVG element, made like an HTML one. */
function draw(tag, properties, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

function fill(element, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === 'text') element.textContent = value;
    else if (name === 'on') each(value, (event, listener) => element.addEventListener(event, listener));
    else if (name === 'data') each(value, (key, item) => { element.dataset[key] = item; });
    else if (name === 'style') each(value, (key, item) => element.style.setProperty(key, item));
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

function each(object, work) {
  for (const [key, item] of Object.entries(object)) work(key, item);
}

/** A selector of where an element is: finds what stands there after that place was made anew. */
function pathTo(element) {
  if (element.id) return `#${CSS.escape(element.id)}`;
  const parent = element.parentElement;
  return parent ? `${pathTo(parent)} > :nth-child(${[...parent.children].indexOf(element) + 1})` : ':root';
}

/** Does what makes parts of the page anew; what has the focus keeps it, or hands it to what is there instead. */
function keepingFocus(work) {
  const before = document.activeElement ?? document.body;
  const path = pathTo(before);
  work();
  if (!before.isConnected && document.activeElement === document.body) {
    document.querySelector(path)?.focus({preventScroll: true});
  }
}

function byId(id) {
  return document.getElementById(id);
}

/** Text that only readers of the page by voice get. */
function unseen(text) {
  return make('span', {class: 'unseen', text});
}

/** Calls `work` once per frame, however often it is asked to. */
function oncePerFrame(work) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      work();
    });
  };
}
