// The page: a machine is given, the answer is shown.

/** The machine that was given, what is assumed of it, and its answers. */
const state = { machine: null, assume: null, shown: null };

const COMMANDS = [
  ["Linux, as root", "(sudo lspci -Dvvvnn; uname -a; cat /proc/cmdline;\n grep -m4 -E 'vendor_id|cpu family|model' /proc/cpuinfo) > machine.txt"],
  ["with NVIDIA GPUs", "(nvidia-smi topo -m; echo 'nvidia-smi topo -p2p r'; nvidia-smi topo -p2p r;\n nvidia-smi -q; head -1 /proc/driver/nvidia/version; gdscheck -p) >> machine.txt"],
  ["with GPUs of AMD or Intel", "zgrep -E 'PCI_P2PDMA|HSA_AMD_P2P|MOVE_NOTIFY' /proc/config.gz \\\n /boot/config-$(uname -r) >> machine.txt"],
];

function rows(section, children, list = section.querySelector("ol,ul,div")) {
  list.replaceChildren(...children);
  section.hidden = children.length === 0;
}

/** Shows a failure as a sentence; a panic also offers the text for a report. */
async function fail(error) {
  say("");
  const box = $("trouble");
  box.replaceChildren(make("p", {}, prose(error.message)), error.hint ? make("p", {}, "Hint: ", prose(error.hint)) : "");
  box.hidden = false;
  if (!error.isPanic) return;
  const { text } = await program.ask(state.machine, { ask: "scrub" }).catch(() => state.machine ?? {});
  const report = make("textarea", { readonly: true, rows: "8", "aria-label": "Report" }, `${error.message}\n\n${text ?? "(a file)"}`);
  const button = make("button", { type: "button", click: () => copy(report.value, button) }, "Copy the report");
  box.prepend(make("p", {}, "The program stopped at a fault of its own. A report with the text helps to fix it; look through it first."));
  box.append(report, button);
}

/** Runs something that may fail, and says so meanwhile. */
async function attempt(what, run) {
  $("trouble").hidden = true;
  say(what);
  try {
    const result = await run();
    if ($("status").textContent === what) say("");
    return result;
  } catch (error) {
    await fail(error);
  }
}

const ask = (question) => program.ask(state.machine, { assume: state.assume, ...question });

async function examine(machine) {
  Object.assign(state, { machine, assume: null });
  for (const id of ["shared", "pair"]) $(id).hidden = true;
  const answer = await attempt("Reading...", () => ask({ ask: "examine" }));
  $("answer").hidden = !answer;
  if (!answer) return;
  showPlan(answer);
  show(answer);
  $("answer").focus();
}

/** Puts a text into its box and examines it. */
const read = (text) => examine({ text: ($("text").value = text) });

/** What if some steps were done, or some settings in force. */
async function assume() {
  const steps = [...document.querySelectorAll("#plan input:checked")].map((box) => Number(box.value));
  const settings = $("settings").value.trim();
  state.assume = steps.length || settings ? { steps, settings } : null;
  const answer = await attempt("Judging...", () => ask({ ask: "examine" }));
  if (answer) show(answer);
}

function show(answer) {
  state.shown = answer;
  const { doctor, words, lines } = answer;
  const [first, ...rest] = doctor.verdict.split(". ");
  $("headline").replaceChildren(...prose(first));
  $("headline-rest").replaceChildren(...prose(rest.join(". ")));
  const assumed = (doctor.assumed ?? []).map(({ setting, effect }) => make("li", {}, make("code", {}, setting), ": ", prose(effect)));
  $("assumed").replaceChildren(...(assumed.length ? [make("p", {}, "What if these were in force:"), make("ul", {}, assumed)] : []));
  rows($("uses"), doctor.uses.map((row) => make("tr", {},
    make("th", { scope: "row" }, words[row.use]),
    make("td", {}, make("span", { class: `state ${row.state}` }, words[row.state])),
    make("td", {}, row.pairs === row.of ? `${row.of}` : `${row.pairs} of ${row.of}`, make("span", { class: "unit" }, " pairs"), make("br"), make("small", {}, `e.g. ${row.example.join(" \u2192 ")}`)),
    make("td", {}, row.because.split("; ").map((reason) => make("p", {}, located(reason, lines, 1)))))), $("uses").querySelector("tbody"));
  rows($("findings"), doctor.findings.map((one) => finding(one, answer)));
  rows($("open"), doctor.unknown.map(({ what, needs }) => {
    const typed = needs.match(/`([^`]+)`/)?.[1];
    return make("li", {}, prose(what), typed ? command(typed) : make("p", {}, prose(needs)));
  }));
  rows($("nccl"), (doctor.nccl ?? []).map((one) => make("li", {}, one.value == null ? make("code", {}, one.name) : command(`${one.name}=${one.value}`), one.value == null ? ": leave it unset. " : "", prose(one.because), make("br"), make("small", {}, one.source))));
  rows($("library"), (doctor.settings ?? []).map((one) => make("li", {}, make("code", {}, `${one.key}: ${one.value}`), ` (since ${one.since}): `, prose(one.consequence), make("br"), prose(one.advice))));
  showAccount(answer);
  fillEnds(answer);
  drawing.show(answer, (ends) => ask({ ask: "pair", ends }));
}

/** Devices to choose from, in pieces; a choice that is still there stays. */
async function fillEnds(answer) {
  const ends = ["first", "second"].map($), kept = ends.map(({ value }) => value);
  $("ends").hidden = answer.devices.length < 2;
  for (const end of ends) end.replaceChildren();
  for (let at = 0; at < answer.devices.length && state.shown === answer; at += 200) {
    const piece = answer.devices.slice(at, at + 200);
    for (const [which, end] of ends.entries()) {
      end.append(...piece.map(({ word, kind, product }) => make("option", { value: word }, `${word} (${kind}${product ? `, ${product}` : ""})`)));
      if (!at) end.selectedIndex = Math.min(which, answer.devices.length - 1);
      if (piece.some(({ word }) => word === kept[which])) end.value = kept[which];
    }
    await pause();
  }
}

function finding(one, { words, lines }) {
  const which = one.kind.startsWith("acs") ? 1 : one.kind.startsWith("link") ? 2 : 0;
  const evidence = one.evidence.map(({ looked_at, showed }) => make("li", {}, located(looked_at, lines, which), ": ", located(showed, lines, which)));
  return make("details", {},
    make("summary", {}, make("strong", {}, `${words[one.cost]}: `), prose(one.what)),
    make("p", {}, "On ", located(one.object, lines, which), one.pairs ? `; ${one.pairs} pairs of ${one.uses.map((use) => words[use]).join(", ")}` : ""),
    evidence.length ? make("ul", {}, evidence) : null,
    one.fix ? make("p", {}, "Fix: ", prose(one.fix.what)) : make("p", {}, "No known fix."));
}

function showPlan({ doctor, words }) {
  rows($("plan"), doctor.steps.map((step) => make("li", {},
    make("p", {}, prose(step.what), ` (${words[step.needs]})`),
    make("p", { class: "quiet" }, `On ${step.objects.join(", ")}`, step.pairs ? `; for ${step.uses.map((use) => words[use]).join(", ")}, ${step.pairs} pairs` : ""),
    step.command ? step.command.split("\n").map((line) => command(line)) : null,
    step.weakens ? make("p", {}, "Side effect: ", prose(step.weakens)) : null,
    step.settings?.length ? make("label", {}, make("input", { type: "checkbox", value: step.order, change: assume }), " What if this were done?") : null)),
    $("plan").querySelector("ol"));
  $("plan").hidden = false;
}

function showAccount({ account, warnings, lines }) {
  const parts = warnings.map((text) => make("p", { class: "warning" }, prose(text)));
  if (account) {
    const lost = account.set_aside.filter((one) => one.is_loss);
    const row = (one) => make("li", {}, lineButton(one.line), ` ${one.key}: ${one.reason}`);
    parts.push(make("p", {}, account.summary));
    if (lost.length) parts.push(make("p", { class: "warning" }, `${lost.length} lines could not be attached to a function; what depends on them is unknown.`), make("ul", {}, lost.slice(0, 50).map(row)));
    const on_purpose = account.set_aside.filter((one) => !one.is_loss);
    const keys = account.keys.filter(([, count]) => count).map(([key, count, attached]) => make("tr", {}, make("th", { scope: "row" }, key), make("td", {}, count), make("td", {}, attached)));
    const head = make("thead", {}, make("tr", {}, ["Key", "In the text", "Of a function"].map((text) => make("th", { scope: "col" }, text))));
    parts.push(make("details", {}, make("summary", {}, "Every key"), make("table", {}, head, make("tbody", {}, keys)), on_purpose.length ? make("p", {}, "Left out on purpose:") : null, make("ul", {}, on_purpose.slice(0, 200).map(row))));
  }
  rows($("account"), parts);
}

/** The two devices in full. */
async function showPair(ends) {
  const guest = $("guest").checked;
  const answer = await attempt("Judging...", () => ask({ ask: "pair", ends, guest }));
  if (!answer) return;
  [$("first").value, $("second").value] = ends;
  const { lines, words } = state.shown;
  const { plan: { jobs: [{ targets: [plan] }] }, doctor } = answer;
  const list = (texts) => make("ul", {}, texts.map((text) => make("li", {}, located(text, lines, 1))));
  const direction = (one, who, whose) => !one ? make("p", {}, `${who.name} to memory of ${whose.name}: it has none for peers.`) : make("section", {},
    make("h5", {}, `${one.initiator} to memory of ${one.provider}`),
    make("p", {}, `Kernel: ${one.verdict.replace(/-/g, " ")}`, one.class ? `; ${one.class} for nvidia-smi` : "", one.distance != null ? `; ${one.distance} hops` : "", one.slowest_link ? `; slowest link ${one.slowest_link.speed} above ${one.slowest_link.function}` : ""),
    list(one.kernel.reasons),
    one.drivers.map((rule) => make("p", {}, make("strong", {}, `${rule.driver}, ${rule.mechanism}: ${rule.answer}. `), prose(rule.reason), " ", make("small", {}, rule.source))));
  const { pair } = plan;
  const needs = pair.guest ? [make("p", {}, make("strong", {}, `In one virtual machine: ${pair.guest.verdict}.`)), list(pair.guest.reasons), list(pair.guest.needs)] : [];
  $("pair").replaceChildren(
    make("h4", {}, make("span", { class: `state ${plan.state}` }, words[plan.state]), " ", prose(plan.verdict)),
    ...needs,
    ...[...(pair.notes ?? []), ...(doctor.notes ?? []), pair.nvlink, pair.xgmi].filter((text, at, all) => text && all.indexOf(text) === at).map((text) => make("p", {}, prose(text))),
    ...doctor.findings.map((one) => finding(one, state.shown)),
    direction(pair.forward, pair.first, pair.second), direction(pair.backward, pair.second, pair.first),
    make("details", {}, make("summary", {}, "Step by step"), (plan.explanation ?? []).map(({ question, steps }) => [make("p", {}, question), make("ol", {}, steps.map((step) => make("li", {}, located(step.finding, lines, 1), " ", make("small", {}, step.source))))])),
    make("p", { class: "quiet" }, plan.no_plan ? `Nothing to copy: ${plan.no_plan}.` : ""));
  $("pair").hidden = false;
  $("pair").focus();
  drawing.path(ends).catch(() => {});
}

async function showChanges() {
  const other = { text: $("other").value };
  const record = await attempt("Comparing...", () => ask({ ask: "diff", other }));
  if (!record) return;
  const item = (one) => make("li", {}, prose(one.what), make("ul", {}, (one.pairs?.reasons ?? []).map((text) => make("li", {}, prose(text)))));
  const part = (title, found) => (found.length ? [make("h4", {}, title), make("ul", {}, found.map(item))] : []);
  const group = (effect, title) => part(title, record.changes.filter((change) => change.effect === effect));
  $("changes").replaceChildren(make("p", {}, make("strong", {}, prose(record.verdict))),
    ...group("worse", "Worse"), ...group("neutral", "Neither better nor worse by itself"), ...group("better", "Better"),
    ...part("Could not be compared", record.uncompared));
  $("changes").focus();
}

async function share() {
  const { text, replaced } = await ask({ ask: "scrub" });
  const address = location.href.split("#")[0] + (await toFragment(text));
  const what = replaced.map(([kind, count]) => `${count} ${kind}${count > 1 ? "s" : ""}`).join(", ");
  const button = make("button", { type: "button", click: () => copy(address, button) }, "Copy the address");
  $("shared").replaceChildren(make("p", {}, `The address below carries the text itself (${address.length.toLocaleString()} characters), without what identifies the machine (${what || "nothing was found"}). Read what it carries before you pass it on; free text stays as it is.`),
    make("div", { class: "row" }, button, make("a", { href: address }, "Open it")), make("details", {}, make("summary", {}, "What it carries"), make("pre", { tabindex: "0", class: "wide" }, text)));
  $("shared").hidden = false;
  $("shared").focus();
}

async function open(files) {
  const texts = [];
  for (const file of files) {
    const bytes = new Uint8Array(await file.arrayBuffer());
    // An archive has zeros in it, or begins as one of four compressions does; UTF-16 begins with its mark.
    const is_utf16 = (bytes[0] === 0xff && bytes[1] === 0xfe) || (bytes[0] === 0xfe && bytes[1] === 0xff);
    if (!is_utf16 && bytes.subarray(0, 512).includes(0)) {
      $("text").value = "";
      return examine({ name: file.name, bytes: toBase64(bytes) });
    }
    texts.push(new TextDecoder(is_utf16 ? (bytes[0] === 0xff ? "utf-16le" : "utf-16be") : "utf-8").decode(bytes));
  }
  return read(texts.join("\n"));
}

async function start() {
  for (const [title, text] of COMMANDS) $("commands").append(make("h3", {}, title), command(text));
  $("text").addEventListener("paste", () => setTimeout(() => examine({ text: $("text").value })));
  $("file").addEventListener("change", () => attempt("Reading...", () => open($("file").files)));
  for (const name of ["dragover", "drop"]) document.addEventListener(name, (event) => event.preventDefault());
  document.addEventListener("drop", ({ dataTransfer }) => dataTransfer.files.length && attempt("Reading...", () => open(dataTransfer.files)));
  const submitted = (id, run) => $(id).addEventListener("submit", (event) => { event.preventDefault(); run(); });
  submitted("form", () => examine({ text: $("text").value }));
  submitted("ends", () => showPair([$("first").value, $("second").value]));
  for (const [id, run] of [["what-if", assume], ["diff", showChanges]]) submitted(id, run);
  $("as-is").addEventListener("click", () => { document.querySelectorAll("#plan input:checked").forEach((box) => (box.checked = false)); $("settings").value = ""; assume(); });
  const keep = (id, what, run) => $(id).addEventListener("click", () => attempt(what, run));
  keep("fix", "Writing...", async () => { const files = await ask({ ask: "fix" }); if (files.length) save("peerlane-fix.zip", zip(files)); else say("No step of the plan has a command."); });
  keep("record", "Writing...", () => save("peerlane.json", JSON.stringify(state.shown.doctor, null, 2) + "\n", "application/json"));
  keep("svg", "Drawing...", async () => save("peerlane.svg", await ask({ ask: "svg" }), "image/svg+xml"));
  keep("xml", "Writing...", async () => { const { text, notes } = await ask({ ask: "nccl" }); save("topology.xml", text, "application/xml"); say(notes.join("; ")); });
  keep("share", "Removing what identifies the machine...", share);
  $("print").addEventListener("click", () => print());
  addEventListener("beforeprint", () => document.querySelectorAll("#answer details").forEach((one) => (one.open = true)));
  drawing.listen(showPair);
  const examples = JSON.parse(new TextDecoder().decode(await through(fromBase64($("examples").textContent), new DecompressionStream("gzip"))));
  for (const name of Object.keys(examples)) $("example").append(make("option", {}, name));
  $("example").addEventListener("change", () => { const text = examples[$("example").value]; if (text) read(text); });
  const given = JSON.parse($("machine-given").textContent)?.text ?? (await fromFragment(location.hash));
  if (given) await read(given);
}

addEventListener("hashchange", () => attempt("Reading...", async () => { const text = await fromFragment(location.hash); if (text) await read(text); }));
start().catch(fail);
