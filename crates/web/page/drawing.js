// The drawing: the matrix shows paths, devices are chosen in it.

/** Elements that are added at a time; the page answers in between. */
const PIECE = /(?:<g class="leaf"[^]*?\n<\/g>\n|.+\n){1,150}/g;

const drawing = {
  /** Draws in pieces; of an answer it keeps devices by number, a request for each pair, and the matrix with the cell in use. */
  async show({ svg, rules, devices }, ask) {
    Object.assign(this, { ask, first: null, grid: null, at: [0, 0], paths: new Map() });
    this.devices = new Map(devices.map((device) => [String(device.id), device]));
    const sheet = new CSSStyleSheet();
    sheet.replaceSync(rules);
    document.adoptedStyleSheets = [sheet];
    const parsed = (text) => new DOMParser().parseFromString(text, "text/html").body.firstElementChild;
    const [head] = svg.match(/^<svg[^]*?<\/title>/), picture = parsed(`${head}</svg>`);
    dress(picture, { role: "group", "aria-label": picture.querySelector("title").textContent });
    $("drawing").replaceChildren(picture);
    for (const text of svg.slice(head.length, svg.lastIndexOf("</svg>")).match(PIECE) ?? []) {
      const piece = parsed(`<svg>${text}</svg>`);
      for (const leaf of piece.querySelectorAll(".leaf")) if (this.device(leaf)) this.button(leaf, `${this.device(leaf).kind} ${this.device(leaf).word}`, picture.querySelectorAll(".leaf").length >= 150 ? -1 : 0);
      picture.append(...piece.childNodes);
      if (picture.querySelector(".grid") && !this.grid) this.open(picture.querySelector(".grid"));
      await pause();
      // Another machine came meanwhile.
      if (!picture.isConnected) return;
    }
  },

  button: (element, label, tabindex = 0) => dress(element, { role: "button", tabindex, "aria-label": label }),

  /** Makes a matrix of its place in the drawing: one button goes from cell to cell. */
  open(place) {
    const lists = (ids) => ids.split(" ").map((some) => some.split("/").filter(Boolean));
    this.grid = { place, cell: place.nextElementSibling, rows: lists(place.dataset.initiators), columns: lists(place.dataset.memories) };
    this.move(this.ends(this.at) ? this.at : (this.next(0, 1) ?? this.at));
  },

  move([row, column]) {
    const { cell, place } = this.grid, number = (of, name) => Number(of.getAttribute(name));
    this.at = [row, column];
    dress(cell, { x: number(place, "x") + column * number(cell, "width"), y: number(place, "y") + row * number(cell, "height") });
    this.button(cell, this.ends(this.at)?.join(" to memory of ") ?? "no pair");
  },

  /** The next cell with a pair in a direction. */
  next(down, right) {
    let [row, column] = this.at;
    while ((row += down) in this.grid.rows && (column += right) in this.grid.columns) if (this.ends([row, column])) return [row, column];
    return null;
  },

  /** The first device of a line. */
  device: (leaf) => leaf.dataset.f.split(" ").map((id) => drawing.devices.get(id)).find(Boolean),

  /** Words of both ends of a cell: the initiator, then the memory. */
  ends([row, column]) {
    for (const memory of this.grid.columns[column]) {
      const initiator = this.grid.rows[row].find((id) => id !== memory);
      if (initiator) return [initiator, memory].map((id) => this.devices.get(id)?.word);
    }
    return null;
  },

  /** Gives a class to what a selector finds, and to nothing else. */
  mark(name, selectors = []) {
    for (const one of $("drawing").querySelectorAll(`.${name}`)) one.classList.remove(name);
    if (selectors.length) for (const one of $("drawing").querySelectorAll(selectors)) one.classList.add(name);
  },

  /** Lights up the path between two devices, and says it. */
  async path(ends) {
    const key = ends.join(" ");
    if (!this.paths.has(key)) this.paths.set(key, this.ask(ends));
    this.wanted = key;
    const { plan: { jobs: [{ targets: [plan] }] }, path } = await this.paths.get(key);
    if (this.wanted !== key) return;
    const functions = (ids) => ids.map((id) => `[data-f~="${id}"]`);
    this.mark("path", [...functions(path.functions), ...path.bridges.map((id) => `[data-b="${id}"]`)]);
    this.mark("decides", functions(path.decide));
    $("path").textContent = plan.verdict;
  },

  /** The first device, or with one that is chosen already the pair of both. */
  choose(device, show) {
    this.mark("chosen", [`[data-f~="${device.id}"]`]);
    const first = this.first && this.first !== device.word ? this.first : null;
    this.first = first ? null : device.word;
    if (first) return show([first, device.word]);
    $("first").value = device.word;
    say(`${device.word} is chosen; choose a second device.`);
  },

  listen(show) {
    const box = $("drawing"), is_cell = ({ target }) => this.grid?.cell === target;
    const look = () => this.ends(this.at) && this.path(this.ends(this.at)).catch(() => {});
    box.addEventListener("pointermove", (event) => {
      if (!is_cell(event) && event.target !== this.grid?.place) return;
      const { rows, columns, place } = this.grid, { left, top, width, height } = place.getBoundingClientRect();
      const at = [Math.floor(((event.clientY - top) / height) * rows.length), Math.floor(((event.clientX - left) / width) * columns.length)];
      if (!(at[0] in rows && at[1] in columns) || (this.wanted && String(at) === String(this.at))) return;
      this.move(at);
      look();
    });
    box.addEventListener("focusin", (event) => is_cell(event) && look());
    box.addEventListener("pointerleave", () => {
      for (const name of ["path", "decides"]) this.mark(name);
      $("path").textContent = this.wanted = "";
    });
    const press = (event) => {
      const leaf = event.target.closest?.(".leaf"), device = leaf && this.device(leaf);
      if (is_cell(event) && this.ends(this.at)) show(this.ends(this.at));
      else if (device) this.choose(device, show);
    };
    box.addEventListener("click", press);
    box.addEventListener("keydown", (event) => {
      const direction = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      if (event.target === box || !(["Enter", " "].includes(event.key) || (direction && is_cell(event)))) return;
      event.preventDefault();
      if (!direction) return press(event);
      this.move(this.next(...direction) ?? this.at);
      this.grid.cell.scrollIntoView({ block: "nearest", inline: "nearest" });
      look();
    });
  },
};
