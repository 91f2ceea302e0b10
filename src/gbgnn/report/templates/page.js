"use strict";
// Draws the figures when they come into sight, and runs the controls. All text is set as text, never as HTML.
(() => {
  const store = JSON.parse(document.getElementById("store").textContent);
  const root = document.documentElement;
  const say = (words) => { document.getElementById("said").textContent = words; };
  const make = (tag, attributes = {}, ...children) => {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "text") element.textContent = value;
      else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== null) element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  };

  // Figures: colours stand in the style sheet, by name, so that both themes are written once.
  const coloured = (value, styles) => {
    if (typeof value === "string") {
      return value.startsWith("var(--") ? styles.getPropertyValue(value.slice(4, -1)).trim() : value;
    }
    if (Array.isArray(value)) return value.map((each) => coloured(each, styles));
    if (value && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, coloured(each, styles)]));
    }
    return value;
  };
  const drawn = new Set();
  const draw = (plot) => {
    const spec = coloured(store.figures[plot.id].spec, getComputedStyle(root));
    drawn.add(plot);
    return Plotly.react(plot, spec.data, spec.layout, { responsive: true, displayModeBar: false });
  };
  const plots = document.querySelectorAll(".plot");
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) { watcher.unobserve(entry.target); draw(entry.target); }
    }
  }, { rootMargin: "400px" });
  plots.forEach((plot) => watcher.observe(plot));
  const drawAll = () => plots.forEach((plot) => { if (!drawn.has(plot) && plot.offsetParent) draw(plot); });
  addEventListener("beforeprint", drawAll);

  for (const button of document.querySelectorAll("[data-save]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const plot = document.getElementById(button.dataset.save);
      if (!drawn.has(plot)) await draw(plot);
      await Plotly.downloadImage(plot, { format: "png", filename: plot.id, width: 900, height: 500, scale: 2 });
      say("picture saved");
    });
  }

  // Themes.
  const theme = document.getElementById("theme");
  const redraw = () => drawn.forEach((plot) => draw(plot));
  theme.hidden = false;
  theme.addEventListener("change", () => {
    if (theme.value) root.dataset.theme = theme.value; else delete root.dataset.theme;
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

  // Text to copy.
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.hidden = false;
    button.addEventListener("click", async () => {
      const text = document.getElementById(button.dataset.copy);
      try {
        await navigator.clipboard.writeText(text.textContent);
        say("copied");
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(text);
        say("selected; copy it with the keyboard");
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }

  // Runs as tabs: arrows move between them.
  const tabs = [...document.querySelectorAll("[role=tab]")];
  const show = (chosen) => tabs.forEach((tab) => {
    const panel = document.getElementById(tab.getAttribute("aria-controls"));
    tab.setAttribute("aria-selected", String(tab === chosen));
    tab.tabIndex = tab === chosen ? 0 : -1;
    panel.setAttribute("role", "tabpanel");
    panel.hidden = tab !== chosen;
    if (tab === chosen) panel.querySelectorAll(".plot").forEach((plot) => { if (drawn.has(plot)) Plotly.Plots.resize(plot); });
  });
  if (tabs.length) {
    tabs[0].parentElement.hidden = false;
    tabs.forEach((tab, i) => {
      tab.addEventListener("click", () => show(tab));
      tab.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        const next = event.key === "Home" ? 0 : event.key === "End" ? tabs.length - 1
          : step ? (i + step + tabs.length) % tabs.length : null;
        if (next === null) return;
        event.preventDefault();
        show(tabs[next]);
        tabs[next].focus();
      });
    });
    show(tabs[0]);
  }

  // The table of nodes.
  const PAGE_SIZE = 25;
  const forms = {
    text: (value) => (value === null ? "-" : value),
    number: (value) => (value === null ? "-" : (value || 0).toLocaleString("en", { maximumSignificantDigits: 4 })),
    signed: (value) => (value > 0 ? "+" : "") + (Math.abs(value) < 1e-3 ? (value || 0).toPrecision(2)
      : value.toLocaleString("en", { maximumSignificantDigits: 3 })),
    percent: (value) => (value === null ? "-" : `${(100 * value).toFixed(1)} %`),
  };
  const explain = (table, details) => {
    const box = make("div", { class: "why" });
    table.blocks.forEach((block, i) => {
      const part = details[i];
      if (!part || !part.length) return;
      const piece = make("div", {}, make("h4", { text: block.title }));
      if (typeof part === "string") {
        piece.append(make("p", { text: part }));
      } else if (block.form === "text") {
        piece.append(make("ul", {}, ...part.map(([name, words]) => make("li", { text: `${name}: ${words}` }))));
      } else {
        const most = Math.max(...part.map(([, value]) => Math.abs(value)), 1e-12);
        for (const [name, value] of part) {
          const bar = make("i", { class: value < 0 ? "minus" : null });
          bar.style.width = `${(100 * Math.abs(value)) / most}%`;
          const shown = forms[block.form](value);
          piece.append(make("div", { class: "meter" }, make("span", { text: name }),
            make("span", { "aria-hidden": "true" }, bar), make("span", { text: shown })));
        }
      }
      if (block.note) piece.append(make("p", { text: block.note }));
      box.append(piece);
    });
    if (!box.childElementCount) box.append(make("p", { text: "Nothing more is known of this node." }));
    return box;
  };
  const nodeTable = (home, table) => {
    const place = Object.fromEntries(table.columns.map((column, i) => [column.key, i]));
    const texts = table.rows.map((row) => row.map((cell) => (cell === null ? "" : String(cell).toLowerCase())).join("\n"));
    const state = { words: "", part: "", outcome: "", sort: null, down: false, page: 0 };
    const field = (key, title, control, kind = "field") => {
      control.id = `${home.id}-${key}`;
      return make("div", { class: kind }, make("label", { for: control.id, text: title }), control);
    };
    const choose = (key, title) => {
      const values = [...new Set(table.rows.map((row) => row[place[key]]))];
      const select = make("select", { onchange: () => { state[key] = select.value; state.page = 0; refresh(); } },
        make("option", { value: "", text: "all" }), ...values.map((value) => make("option", { value, text: value })));
      return field(key, title, select);
    };
    const search = make("input", { type: "search", oninput: () => {
      state.words = search.value.trim().toLowerCase(); state.page = 0; refresh();
    } });
    const filters = make("div", { class: "filters" }, field("search", "Search (node, class)", search), choose("part", "Part"));
    if ("outcome" in place) filters.append(choose("outcome", "Outcome"));
    // Where there is no room for heads to sort by, as on a phone, a menu sorts.
    const orders = make("select", { onchange: () => {
      const [column, down] = orders.value.split(" ");
      state.sort = orders.value ? Number(column) : null; state.down = down === "down"; state.page = 0; refresh();
    } }, make("option", { value: "", text: "as listed" }), ...table.columns.flatMap((column, i) => [
      make("option", { value: `${i} up`, text: `${column.head}, least first` }),
      make("option", { value: `${i} down`, text: `${column.head}, most first` })]));
    filters.append(field("order", "Sort by", orders, "field narrow"));
    const heads = table.columns.map((column, i) => {
      const order = () => {
        state.down = state.sort === i ? !state.down : false;
        state.sort = i; state.page = 0; refresh();
      };
      return make("th", { scope: "col", class: column.form === "text" ? null : "number" },
        make("button", { type: "button", class: "sort", text: column.head, onclick: order }));
    });
    const body = make("tbody");
    const head = make("thead", {}, make("tr", {}, ...heads, make("th", { scope: "col" }, make("span", { class: "unseen", text: "why" }))));
    const count = make("p", { role: "status" });
    const turn = (text, step) => make("button", { type: "button", text, onclick: () => { state.page += step; refresh(); } });
    const [back, on] = [turn("Previous", -1), turn("Next", 1)];
    const found = () => {
      const kept = [];
      table.rows.forEach((row, i) => {
        if (state.part && row[place.part] !== state.part) return;
        if (state.outcome && row[place.outcome] !== state.outcome) return;
        if (!state.words || texts[i].includes(state.words)) kept.push(i);
      });
      if (state.sort === null) return kept;
      const sign = state.down ? -1 : 1;
      const compare = (a, b) => {
        if (a === null || b === null) return (a === null) - (b === null);  // what is not known comes last
        const order = typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true });
        return sign * order;
      };
      return kept.sort((i, j) => compare(table.rows[i][state.sort], table.rows[j][state.sort]) || i - j);
    };
    const refresh = () => {
      const kept = found();
      const last = Math.max(0, Math.ceil(kept.length / PAGE_SIZE) - 1);
      state.page = Math.min(Math.max(state.page, 0), last);
      back.disabled = state.page === 0;
      on.disabled = state.page === last;
      count.textContent = kept.length
        ? `${kept.length.toLocaleString("en")} of ${table.rows.length.toLocaleString("en")} nodes, page ${state.page + 1} of ${last + 1}`
        : "No node is like that.";
      heads.forEach((cell, i) => cell.setAttribute("aria-sort", state.sort === i ? (state.down ? "descending" : "ascending") : "none"));
      body.replaceChildren(...kept.slice(state.page * PAGE_SIZE, (state.page + 1) * PAGE_SIZE).flatMap((i) => {
        const cells = table.columns.map((column, k) => {
          const value = table.rows[i][k];
          const kind = column.key === "outcome" ? value : column.form === "text" ? null : "number";
          const [tag, scope] = k === 0 ? ["th", "row"] : ["td", null];
          return make(tag, { scope, class: kind, "data-label": column.head, text: forms[column.form](value) });
        });
        const more = make("tr", { hidden: "" }, make("td", { colspan: String(cells.length + 1) }));
        const open = make("button", { type: "button", class: "open", "aria-expanded": "false", text: "Why?",
          "aria-label": `Why? Node ${table.rows[i][0]}`, onclick: () => {
            const opens = more.hidden;
            if (opens && !more.firstChild.childElementCount) more.firstChild.append(explain(table, table.details[i]));
            more.hidden = !opens;
            open.setAttribute("aria-expanded", String(opens));
          } });
        return [make("tr", {}, ...cells, make("td", {}, open)), more];
      }));
    };
    home.replaceChildren(filters,
      make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Nodes" },
        make("table", {}, make("caption", { class: "unseen", text: "Nodes" }), head, body)),
      make("div", { class: "pages" }, back, on, count));
    refresh();
  };
  for (const home of document.querySelectorAll(".nodes")) nodeTable(home, store.nodes[home.id]);
})();
