// Drives the page in a headless browser, and compares what it shows with what the program prints.
//
//     node crates/web/page/test.mjs BROWSER PAGE PROGRAM [--full] [--axe FILE] [--shots FOLDER] [--times FILE]...
//
// BROWSER is Chromium or Firefox by its path, PROGRAM is `peerlane`. --full takes every machine of the fixtures instead
// of four. --axe checks accessibility by the script that `tools/fetch-axe` prints the path of. --shots writes pictures at
// three widths. --times prints the time from a paste of a machine to its answer, and runs no test.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";
import assert from "node:assert/strict";
import { pathToFileURL } from "node:url";
import { parseArgs } from "node:util";
import { Chromium, Firefox } from "./browsers.mjs";

const { values: options, positionals } = parseArgs({
  allowPositionals: true,
  options: { full: { type: "boolean" }, axe: { type: "string" }, shots: { type: "string" }, times: { type: "string", multiple: true } },
});
const [browser, file, peerlane] = positionals;
const ROOT = path.join(import.meta.dirname, "../../..");
const address = pathToFileURL(path.resolve(file)).href;
const TEXTS = ["eight-gpus", "switch-redirecting", "switch-direct", "switch-unprivileged"];

/** What the program prints as JSON; an exit status of 1 is an answer. */
function printed(words, input, place = "-") {
  try {
    return JSON.parse(execFileSync(peerlane, [...words, "--json", "--machine", place], { input, cwd: ROOT, stdio: ["pipe", "pipe", "ignore"], maxBuffer: 1 << 28 }));
  } catch (error) {
    if (error.status !== 1) throw error;
    return JSON.parse(error.stdout);
  }
}

const read = (name) => fs.readFileSync(path.join(ROOT, `fixtures/lspci/${name}.txt`), "utf8");

/** Every machine of the fixtures, by its path. */
function machines() {
  const list = (folder, end) => fs.readdirSync(path.join(ROOT, folder)).filter((name) => name.endsWith(end)).map((name) => `${folder}/${name}`);
  const trees = list("fixtures/sysfs", "").map((folder) => `${folder}/tree.tar.zst`).filter((one) => fs.existsSync(path.join(ROOT, one)));
  return [...list("fixtures/lspci", ".txt"), ...list("fixtures/nccl", ".xml"), ...list("fixtures/questions", ".toml"), ...list("machines", ".toml"), ...trees];
}

/** Offences that axe finds in the page as it is now. */
async function offences(page) {
  if (!(await page.run("typeof axe === 'object'"))) await page.run(`${fs.readFileSync(options.axe, "utf8")}; 1`);
  return page.run("axe.run(document).then(({ violations }) => violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.slice(0, 3).map(({ html }) => html).join(' ')}`))");
}

const TESTS = {
  async answers_equal_those_of_the_program(page) {
    for (const name of TEXTS) {
      await page.paste(read(name));
      assert.deepEqual(await page.run("state.shown.doctor"), printed(["doctor"], read(name)), name);
      const headline = await page.run("$('headline').textContent + '. ' + $('headline-rest').textContent");
      const { verdict } = printed(["doctor"], read(name));
      assert.equal(headline.replace(/\. $/, ""), verdict.replaceAll("`", ""));
      assert.equal(await page.run("$('uses').querySelectorAll('tbody tr').length"), printed(["doctor"], read(name)).uses.length);
    }
  },

  async pairs_equal_those_of_the_program(page) {
    await page.paste(read("eight-gpus"));
    await page.run("showPair(['gpu:0', 'gpu:1'])");
    const plan = await page.run("drawing.paths.get('gpu:0 gpu:1').then(({ plan }) => plan)");
    const [target] = plan.jobs[0].targets;
    assert.ok(target.explanation.length > 0);
    delete target.explanation;
    assert.deepEqual(plan, printed(["plan", "gpu:0", "gpu:1"], read("eight-gpus")));
    await page.until("document.querySelectorAll('#drawing .path').length > 3");
    await page.until("document.querySelectorAll('#drawing .decides').length > 0");
  },

  async nothing_is_fetched(page) {
    const policy = await page.run("document.querySelector('meta[http-equiv]').content");
    assert.match(policy, /default-src 'none'/);
    assert.match(policy, /connect-src 'none'/);
    assert.equal(await page.run("fetch('https://example.invalid/').then(() => 'sent', () => 'refused')"), "refused");
    const others = page.requests.filter((url) => !/^(file|blob|data|about):/.test(url));
    assert.deepEqual(others.filter((url) => url !== "https://example.invalid/"), []);
    const is_refusal = (text) => text.includes("example.invalid");
    await page.until(() => page.troubles.some(is_refusal));
    page.troubles = page.troubles.filter((text) => !is_refusal(text));
  },

  async what_if_changes_the_answer(page) {
    await page.paste(read("eight-gpus"));
    const before = await page.run("$('headline').textContent");
    await page.run("document.querySelector('#plan input[type=checkbox]').click()");
    await page.until("$('assumed').textContent.includes('disable_acs_redir')");
    assert.notEqual(await page.run("$('headline').textContent"), before);
    await page.run("$('as-is').click()");
    await page.until("!$('assumed').textContent");
    assert.equal(await page.run("$('headline').textContent"), before);
  },

  async shared_address_shows_the_same_without_names(page) {
    const text = read("eight-gpus") + "\nalice@gpu07:~$ uname -a\n";
    await page.paste(text);
    const shown = await page.run("$('headline').textContent");
    await page.run("$('share').click()");
    await page.until("!$('shared').hidden");
    const url = await page.run("$('shared').querySelector('a').href");
    await page.open(url);
    await page.until("!$('answer').hidden && !$('status').textContent");
    assert.equal(await page.run("$('headline').textContent"), shown);
    assert.ok(!(await page.run("$('text').value")).match(/alice|gpu07/));
  },

  async evidence_selects_its_line(page) {
    await page.paste(read("eight-gpus"));
    await page.run("document.querySelector('#findings details').open = true; document.querySelector('#findings button.line').click()");
    assert.match(await page.run("$('text').value.slice($('text').selectionStart, $('text').selectionEnd)"), /ACSCtl/);
  },

  async keyboard_reaches_signs_and_devices(page) {
    await page.paste(read("eight-gpus"));
    await page.run("$('drawing').focus()");
    await page.key("Tab");
    const first = await page.run("document.activeElement.getAttribute('aria-label')");
    assert.ok(first, "a device has the focus");
    await page.run("document.querySelector('#drawing .cell').focus()");
    await page.key("ArrowDown");
    await page.until("$('path').textContent.includes('->')");
    await page.key("Enter");
    await page.until("!$('pair').hidden && document.activeElement === $('pair')");
  },

  async pointer_on_the_matrix_shows_its_path(page) {
    await page.paste(read("eight-gpus"));
    await page.until("drawing.grid");
    // The last row of the first column: the last device to the memory of the first.
    await page.run(`(() => { const { left, bottom } = drawing.grid.place.getBoundingClientRect();
      drawing.grid.place.dispatchEvent(new PointerEvent("pointermove", { bubbles: true, clientX: left + 1, clientY: bottom - 1 })); })()`);
    await page.until("$('path').textContent.includes('-> gpu:0')");
    await page.run("drawing.grid.cell.dispatchEvent(new MouseEvent('click', { bubbles: true }))");
    await page.until("!$('pair').hidden && $('second').value === 'gpu:0'");
  },

  async keyboard_reaches_the_whole_answer(page) {
    await page.paste(read("eight-gpus"));
    assert.equal(await page.run("document.activeElement.id"), "answer");
    const reached = new Set();
    // Every stop of the tabulator from the answer to the end of the page.
    for (let stops = 0; stops < 300; stops++) {
      await page.key("Tab");
      const [name, isSeen] = await page.run(`(() => { const one = document.activeElement, style = getComputedStyle(one), box = one.getBoundingClientRect();
        return [one.id || one.closest("[id]")?.id || one.tagName, style.outlineStyle !== "none" && box.width > 0 || one.closest("#drawing") !== null]; })()`);
      assert.ok(isSeen, `the focus on ${name} is not seen`);
      reached.add(name);
      if (name === "diff") break;
    }
    for (const name of ["findings", "plan", "settings", "as-is", "open", "first", "second", "guest", "ends", "drawing", "account", "fix", "record", "svg", "xml", "print", "share", "other", "diff"]) assert.ok(reached.has(name), `Tab does not reach ${name}: ${[...reached]}`);
    await page.run("document.querySelector('#findings summary').focus()");
    await page.key("Enter");
    await page.until("document.querySelector('#findings details').open");
    await page.run("document.querySelector('#plan input').focus()");
    await page.key(" ");
    await page.until("$('assumed').textContent.includes('disable_acs_redir')");
  },

  async two_texts_are_compared(page) {
    await page.paste(read("switch-redirecting"));
    await page.run(`$("other").value = ${JSON.stringify(read("switch-direct"))}; $("diff").requestSubmit(); 1`);
    await page.until("$('changes').textContent");
    assert.match(await page.run("$('changes').textContent"), /change/);
  },

  async wrong_texts_are_told(page) {
    await page.run(`$("text").value = "Dear list"; $("form").requestSubmit(); 1`);
    await page.until("!$('trouble').hidden");
    assert.match(await page.run("$('trouble').textContent"), /neither a machine file/);
    assert.ok(await page.run("$('answer').hidden"));
  },

  async every_fixture_has_the_answer_of_the_program(page) {
    for (const place of machines()) {
      const bytes = fs.readFileSync(path.join(ROOT, place)).toString("base64");
      await page.run(`$("answer").hidden = true; examine({ name: ${JSON.stringify(place)}, bytes: ${JSON.stringify(bytes)} })`);
      assert.ok(await page.run("!$('answer').hidden"), `${place}: ${await page.run("$('trouble').textContent")}`);
      assert.deepEqual(await page.run("state.shown.doctor"), printed(["doctor"], "", place), place);
    }
  },

  async panic_is_told_and_offers_the_text(page) {
    // A length that no vector has is a panic of the program itself.
    await page.run("globalThis.whole = $('worker').textContent; $('worker').textContent = whole.replace('program.ask()', `(request.includes('examine') ? program.room(-1) : program.ask())`); 1");
    await page.run(`read(${JSON.stringify(read("switch-direct") + "\nalice@gpu07:~$ true\n")})`);
    await page.until("!$('trouble').hidden && $('trouble').querySelector('textarea')");
    assert.match(await page.run("$('trouble').textContent"), /fault of its own.*capacity overflow/s);
    const report = await page.run("$('trouble').querySelector('textarea').value");
    assert.match(report, /capacity overflow.*ACSCtl/s);
    assert.doesNotMatch(report, /alice|gpu07/);
    assert.ok(await page.run("$('answer').hidden"));
    await page.run("$('worker').textContent = whole; program.stop(); 1");
    await page.paste(read("switch-direct"));
    assert.ok(await page.run("$('trouble').hidden"));
  },

  async plan_of_the_archive_is_that_of_the_program(page) {
    await page.paste(read("eight-gpus"));
    const files = await page.run("ask({ ask: 'fix' })");
    const folder = path.join(page.profile, "fix");
    try {
      execFileSync(peerlane, ["doctor", "--machine", "-", "--write-fix", folder], { input: read("eight-gpus"), stdio: ["pipe", "ignore", "ignore"] });
    } catch (error) {
      if (error.status !== 1) throw error;
    }
    for (const { path: name, content } of files) assert.equal(content, fs.readFileSync(path.join(folder, name), "utf8"), name);
    assert.ok(files.some(({ path: name }) => name === "plan.txt"));
  },

  async archive_and_zip_are_whole(page) {
    const bytes = fs.readFileSync(path.join(ROOT, "fixtures/sysfs/r7515/tree.tar.zst")).toString("base64");
    await page.run(`examine({ name: "tree.tar.zst", bytes: ${JSON.stringify(bytes)} })`);
    await page.until("!$('answer').hidden");
    assert.equal(await page.run("state.shown.doctor.machine.name"), "r7515");
    const zip = await page.run("zip([{ path: 'a/b.sh', content: 'echo', is_executable: true }]).arrayBuffer().then((b) => toBase64(new Uint8Array(b)))");
    const file = path.join(page.profile, "test.zip");
    fs.writeFileSync(file, Buffer.from(zip, "base64"));
    const listed = execFileSync("python3", ["-c", "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); print(z.testzip(), z.read('a/b.sh').decode(), oct(z.infolist()[0].external_attr >> 16))", file]).toString();
    assert.equal(listed.trim(), "None echo 0o100755");
  },

  async narrow_page_does_not_scroll_sideways(page) {
    await page.paste(read("eight-gpus"));
    for (const width of [360, 800, 1280]) {
      await page.width(width);
      assert.ok(await page.run("document.documentElement.scrollWidth <= innerWidth"), `${width}: ${await page.run("document.documentElement.scrollWidth")}`);
    }
  },

  async page_is_accessible(page) {
    if (!options.axe) return "there is no axe-core: tools/fetch-axe";
    assert.deepEqual(await offences(page), []);
    await page.paste(read("eight-gpus"));
    await page.run(`showPair(["gpu:0", "gpu:1"])`);
    await page.run("document.querySelectorAll('details').forEach((one) => (one.open = true)); share()");
    for (const width of [1280, 360]) {
      await page.width(width);
      assert.deepEqual(await offences(page), [], `${width}`);
    }
  },
};

const DARK = {
  async dark_page_is_accessible(page) {
    assert.ok(await page.run("matchMedia('(prefers-color-scheme: dark)').matches"));
    return TESTS.page_is_accessible(page);
  },
};

const start = (isDark) => (/firefox/.test(browser) ? Firefox : Chromium).start(browser, isDark);

/** Runs tests in a browser of their own, and returns how many passed, failed and were skipped. */
async function run(tests, isDark) {
  const counts = { passed: 0, failed: 0, skipped: 0 };
  const tab = await start(isDark);
  try {
    for (const [name, test] of Object.entries(tests)) {
      try {
        await tab.width(1280);
        await tab.open(address);
        const skipped = await test(tab);
        assert.deepEqual(tab.troubles, []);
        counts[skipped ? "skipped" : "passed"] += 1;
        console.log(skipped ? `skipped ${name}: ${skipped}` : `ok ${name}`);
        if (skipped && process.env.PEERLANE_SKIP_LOG) fs.appendFileSync(process.env.PEERLANE_SKIP_LOG, `page::${name}: ${skipped}\n`);
      } catch (error) {
        counts.failed += 1;
        tab.troubles = [];
        console.log(`FAILED ${name}: ${error.stack}`);
      }
    }
  } finally {
    await tab.stop();
  }
  return counts;
}

/** Pictures: the answer in three widths, a pair, and the drawing of docs/page.md; also in the dark. */
async function pictures() {
  for (const isDark of [false, true]) {
    const tab = await start(isDark);
    const shot = async (name, width, place) => {
      await tab.width(width);
      await tab.run(`$("${place}").scrollIntoView({ block: "start" })`);
      await tab.shot(path.join(options.shots, `${name}${isDark ? "-dark" : ""}.png`));
    };
    await tab.width(1280);
    await tab.open(address);
    await tab.paste(read("eight-gpus"));
    for (const width of [360, 800, 1280]) await shot(`page-${width}`, width, "answer");
    await tab.run("showPair(['0000:1a:00.0', 'gpu:0'])");
    await tab.until("document.querySelectorAll('#drawing .path').length > 3");
    for (const width of [360, 800, 1280]) await shot(`pair-${width}`, width, "machine");
    await shot("page", 1280, "drawing");
    await tab.stop();
  }
}

/** Times from a paste to its answer, the longest time for which the page was busy, and its longest task over 50 ms. */
async function times() {
  const tab = await start(false);
  await tab.width(1280);
  for (const place of options.times) {
    await tab.open(address);
    // The program is unpacked at the first question.
    await tab.paste(read("switch-direct"));
    const text = JSON.stringify(fs.readFileSync(place, "utf8"));
    const [all, busy, task, functions] = await tab.run(`(async () => {
      let busy = 0, task = 0, seen = performance.now(), going = true;
      const tick = () => { const now = performance.now(); busy = Math.max(busy, now - seen); seen = now; if (going) setTimeout(tick); };
      const tasks = new PerformanceObserver((list) => list.getEntries().forEach(({ duration }) => (task = Math.max(task, duration))));
      tasks.observe({ type: "longtask" });
      const begin = performance.now(), frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
      tick();
      await read(${text});
      // Two frames: what was made is on the screen.
      await frame();
      await frame();
      const all = performance.now() - begin, drawn = () => $("drawing").querySelectorAll("*").length + $("second").options.length;
      // The rest of the drawing, which comes in pieces.
      for (let before = -1; before < drawn();) { before = drawn(); for (let frames = 0; frames < 10; frames++) await frame(); }
      going = false;
      const is_told = PerformanceObserver.supportedEntryTypes.includes("longtask");
      return [all, busy, is_told ? task : null, state.shown.devices.length];
    })()`);
    const longest = task === null ? "not told by this browser" : task ? `${Math.round(task)} ms` : "none";
    console.log(`${path.basename(place)}: ${functions} devices, ${(all / 1000).toFixed(2)} s to the answer, page busy for ${Math.round(busy)} ms at most, longest task over 50 ms: ${longest}`);
  }
  await tab.stop();
}

if (options.times || options.shots) {
  await (options.times ? times() : pictures());
  process.exit();
}
if (!options.full) delete TESTS.every_fixture_has_the_answer_of_the_program;
const begin = performance.now();
const all = [await run(TESTS, false), await run(DARK, true)];
const sum = (key) => all.reduce((total, one) => total + one[key], 0);
console.log(`${sum("passed")} passed, ${sum("failed")} failed, ${sum("skipped")} skipped in ${((performance.now() - begin) / 1000).toFixed(1)}s`);
process.exitCode = sum("failed") ? 1 : 0;
