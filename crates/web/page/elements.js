// Elements, made of texts alone: nothing of a machine is taken for markup.

/** Gives attributes to an element; a function listens. */
function dress(element, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== false && value != null) element.setAttribute(name, value === true ? "" : value);
  }
  return element;
}

/** An element with attributes and children; a string is text. */
function make(tag, attributes = {}, ...children) {
  const element = dress(document.createElement(tag), attributes);
  element.append(...children.flat().filter((child) => child != null));
  return element;
}

/** Lets the page answer before more is done. */
const pause = () => new Promise((resolve) => setTimeout(resolve));

/** Says something in the line of states. */
const say = (text) => ($("status").textContent = text);

async function copy(text, button) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const box = make("textarea", { class: "hidden" });
    document.body.append(box);
    box.value = text;
    box.select();
    document.execCommand("copy");
    box.remove();
    button.focus();
  }
  const before = button.textContent;
  button.textContent = say("Copied");
  setTimeout(() => (button.textContent = before), 2000);
}

/** A text to type, with a button that copies it. */
function command(text, label = "Copy") {
  const button = make("button", { type: "button", click: () => copy(text, button) }, label);
  return make("div", { class: "command" }, make("pre", { tabindex: "0" }, text), button);
}

/** Words in which the parts between backquotes are code. */
const prose = (text) => text.split("`").map((part, at) => (at % 2 ? make("code", {}, part) : part));

/** Makes a line of the pasted text light up. */
function light(number) {
  const box = $("text");
  const lines = box.value.split("\n");
  const start = lines.slice(0, number - 1).reduce((sum, line) => sum + line.length + 1, 0);
  box.focus();
  box.setSelectionRange(start, start + (lines[number - 1]?.length ?? 0));
  const height = parseFloat(getComputedStyle(box).lineHeight);
  box.scrollTo(0, (number - 1) * height - box.clientHeight / 3);
  box.scrollIntoView({ block: "center" });
  say(`Line ${number} is selected.`);
}

const lineButton = (number) => make("button", { type: "button", class: "line", click: () => light(number) }, `line ${number}`);

/** Words with a button behind each line number, and behind each address whose line is known. */
function located(text, lines, which) {
  const parts = [];
  for (const part of text.split(/(\bline \d+|\b[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\b)/)) {
    const number = part.match(/^line (\d+)$/)?.[1];
    const of = lines[part];
    if (number) parts.push(lineButton(Number(number)));
    else if (of) parts.push(part, " ", lineButton(of[which] || of[0]));
    else parts.push(...prose(part));
  }
  return parts;
}
