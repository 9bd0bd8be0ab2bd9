// Controls over configurations that are priced already: two of them side by side, a map of where an SLO is kept.
(async () => {
  "use strict";
  const root = document.getElementById("explorer");
  const given = JSON.parse(await window.roofline.unzip("explorer-data"));
  const { axes, numbers, figures, words } = given;
  const rows = new Map(given.at.map((places, row) => [places.join(), row]));
  const find = (id) => document.getElementById(id);
  const selects = [...root.querySelectorAll("select")];
  const sliders = [...root.querySelectorAll("input[type=range]")];
  const named = (list, name) => list.find((entry) => entry.name === name);
  const SIDES = axes.length ? ["A", "B"] : ["A"];
  const GAP = "\u00a0";

  const PREFIXES = { s: [[1, "s"], [1e-3, "ms"], [1e-6, "µs"]], J: [[1e9, "GJ"], [1e6, "MJ"], [1e3, "kJ"], [1, "J"]] };
  const BINARY = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [1, "B"]];
  const digits = (value) =>
    Math.abs(value) >= 100
      ? Math.round(value).toLocaleString("en-US")
      : Number(value.toPrecision(3)) === value
        ? String(value)
        : value.toPrecision(3);
  // All is not nearly all, and little is not nothing.
  const percent = (share) => {
    const hundredths = 100 * Number(share.toFixed(9));
    if (hundredths > 0 && hundredths < 0.1) return "< 0.1";
    const whole = !hundredths || (Math.abs(hundredths) >= 9.95 && !(hundredths >= 99.5 && hundredths < 100));
    return hundredths.toFixed(whole ? 0 : 1);
  };
  // Cents at least, and three digits of what is less than a dollar.
  const dollars = (value) => {
    const exact = Number(value.toPrecision(3)) === value ? String(value) : value.toPrecision(3);
    if (value < 1 && exact.length > 4) return exact;
    return value.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  };
  const written = (value, unit) => {
    if (value === null || value === undefined) return "–";
    if (unit === "share") return `${percent(value)}${GAP}%`;
    if (unit.startsWith("$")) return `$${dollars(value)}`;
    const steps = unit === "B" ? BINARY : PREFIXES[unit];
    if (!steps) return `${digits(value)}${unit ? GAP + unit : ""}`;
    const [size, name] = steps.find(([least]) => Math.abs(value) >= least * 0.9995) || steps.at(-1);
    const exact = value !== 0 && Math.abs(value / size) < 999.5;
    return `${exact ? (value / size).toPrecision(3) : digits(value / size)}${GAP}${name}`;
  };
  // The unit once where both ends have the same.
  const between = (low, high, unit) => {
    const [first, last] = [written(low, unit), written(high, unit)];
    const [number, name] = first.split(GAP);
    return `${name === last.split(GAP)[1] ? number : first} – ${last.replace(/^\$/, "")}`;
  };

  const chosen = (side) =>
    axes.map((_, i) => Number(selects.find((e) => e.dataset.side === side && Number(e.dataset.axis) === i).value));
  // What tells one side from the other, in words.
  const texts = (side, lane) =>
    axes
      .map((_, i) => selects.find((e) => e.dataset.side === side && Number(e.dataset.axis) === i))
      .map((select, i) => select.options[lane[i]].textContent)
      .join(" ");
  const at = () => sliders.map((slider) => Number(slider.value));
  const rowOf = (lane, places) => rows.get([...lane, ...places].join());
  // Where only some were kept, a choice that leads to none of them moves the others to the nearest.
  const nearest = (wanted, held) => {
    let best = null;
    given.at.forEach((places) => {
      if (held.some((i) => places[i] !== wanted[i])) return;
      const apart = (place, i) => (i < axes.length ? 1000 * (place !== wanted[i]) : Math.abs(place - wanted[i]));
      const far = places.reduce((sum, place, i) => sum + apart(place, i), 0);
      if (!best || far < best.far) best = { places, far };
    });
    return best.places;
  };
  const settle = (control) => {
    const every = numbers.map((_, i) => axes.length + i);
    const first = control?.dataset.side === "B" ? "B" : "A";
    let moved = false;
    [first, ...SIDES.filter((side) => side !== first)].forEach((side) => {
      const wanted = [...(axes.length ? chosen(side) : []), ...at()];
      if (rows.has(wanted.join())) return;
      const own = control?.dataset.axis ?? (control?.dataset.number && axes.length + Number(control.dataset.number));
      const places = nearest(wanted, side !== first ? every : own === undefined ? [] : [Number(own)]);
      selects.forEach((select) => {
        if (select.dataset.side === side) select.value = String(places[Number(select.dataset.axis)]);
      });
      sliders.forEach((slider, i) => (slider.value = String(places[axes.length + i])));
      moved = true;
    });
    return moved;
  };

  const limits = [...root.querySelectorAll("[data-limit]")].map((input) => ({
    input,
    figure: named(figures, input.dataset.limit),
  }));
  const most = ({ input }) => (parseFloat(input.value) > 0 ? parseFloat(input.value) / 1000 : Infinity);
  const limited = () => limits.some((each) => most(each) < Infinity);
  const broken = (row) => {
    if (!given.fits[row]) return "memory";
    const first = limits.find((each) => each.figure.value[row] > most(each));
    return first ? first.figure.title : "";
  };

  const element = (tag, text, attributes = {}) => {
    const made = document.createElement(tag);
    made.textContent = text;
    Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
    return made;
  };
  const line = (cells) => {
    const made = document.createElement("tr");
    made.append(...cells);
    return made;
  };
  const number = (text, tone = "") => element("td", text, { class: `n${tone && ` ${tone}`}` });

  const fill = (lanes, places, moved) => {
    const table = find("explorer-figures");
    const picked = lanes.map((lane) => rowOf(lane, places));
    const ends = figures.some(({ low }) => low);
    const heads = ["Figure", ...SIDES.flatMap((side) => [side, ...(ends ? [`${side}, 80${GAP}%`] : [])])];
    if (SIDES[1]) heads.push("B / A");
    table.tHead.replaceChildren(
      line(heads.map((text, i) => element("th", text, { scope: "col", ...(i ? { class: "n" } : {}) }))),
    );
    const body = figures.map((figure) => {
      const cells = [element("th", figure.title, { scope: "row" })];
      picked.forEach((row) => {
        const [low, high] = [figure.low?.[row], figure.high?.[row]];
        cells.push(number(written(figure.value[row], figure.unit)));
        const known = typeof low === "number" && typeof high === "number" && low < high;
        if (ends) cells.push(number(known ? between(low, high, figure.unit) : "", "muted"));
      });
      if (SIDES[1]) {
        const ratio = figure.value[picked[1]] / figure.value[picked[0]];
        const same = !Number.isFinite(ratio) || Math.abs(ratio - 1) < 0.005;
        const better = ratio > 1 === figure.more;
        const text = Number.isFinite(ratio) ? `${ratio > 1 ? "▲" : "▼"} × ${ratio.toFixed(2)}` : "–";
        cells.push(number(same && Number.isFinite(ratio) ? "same" : text, same ? "muted" : better ? "good" : "bad"));
      }
      return line(cells);
    });
    words.forEach((word) => {
      if (picked.every((row) => !word.texts[word.value[row]])) return;
      const cells = [element("th", word.title, { scope: "row" })];
      picked.forEach((row) => {
        const text = word.texts[word.value[row]] || "–";
        cells.push(element("td", text, { class: "n" }), ...(ends ? [element("td", "")] : []));
      });
      if (SIDES[1]) cells.push(element("td", ""));
      body.push(line(cells));
    });
    table.tBodies[0].replaceChildren(...body);
    const names = axes.length ? SIDES.map((side, i) => `${side}: ${texts(side, lanes[i])}`) : [];
    const numbered = numbers.map(({ title, unit, values }, i) => `${title.toLowerCase()} ${written(values[places[i]], unit)}`);
    find("explorer-figures-caption").textContent = [
      names.join("; ") || "Chosen configuration",
      ...(numbered.length ? [`at ${numbered.join(", ")}`] : []),
      ...(ends ? [`with the central 80${GAP}% where it is known`] : []),
    ].join(", ");
    const said = SIDES.map((side, i) => {
      const reason = broken(picked[i]);
      if (reason === "memory") return `${side} does not fit into memory.`;
      if (!limited()) return `${side} fits.`;
      return reason ? `${side} misses the SLO: ${reason}.` : `${side} keeps the SLO.`;
    });
    find("explorer-said").textContent = [...said, ...(moved ? ["That was not kept: this is the nearest that was."] : [])].join(" ");
  };

  // Every pair of the first two numbers, for side A; other numbers as the sliders have them.
  const map = (lane, places) => {
    if (!numbers.length) {
      find("explorer-map-region").hidden = true;
      return;
    }
    const table = find("explorer-map");
    const [across, down] = numbers;
    const label = (entry, value) => `${digits(value)}${entry.unit === "requests/s" ? "/s" : ""}`;
    const shown = named(figures, "tpot_p99_s") || named(figures, "tpot_s") || figures[0];
    find("explorer-map-caption").textContent =
      `A: ${shown.title} at each ${across.title.toLowerCase()}${down ? ` and ${down.title.toLowerCase()}` : ""}; ✓ ${limited() ? "keeps the SLO" : "fits, and nothing is limited yet"}`;
    // What was not kept at all has no row and no column.
    const place = (i, j) => [i, ...(down ? [j] : []), ...places.slice(2)];
    const all = (values) => values.map((_, i) => i);
    const rowsOf = down ? all(down.values) : [0];
    const columns = all(across.values).filter((i) => rowsOf.some((j) => rowOf(lane, place(i, j)) !== undefined));
    const kept = rowsOf.filter((j) => columns.some((i) => rowOf(lane, place(i, j)) !== undefined));
    table.tHead.replaceChildren(
      line([
        element("th", down ? `${down.title} \\ ${across.title}` : across.title, { scope: "col" }),
        ...columns.map((i) => element("th", label(across, across.values[i]), { scope: "col", class: "n" })),
      ]),
    );
    const lines = kept.map((j) => {
      const value = down ? down.values[j] : null;
      const cells = columns.map((i) => {
        const row = rowOf(lane, place(i, j));
        const here = place(i, j).every((each, k) => each === places[k]) ? " here" : "";
        if (row === undefined) return number("·", `muted${here}`);
        const reason = broken(row);
        const text = reason === "memory" ? "✗ memory" : `${reason ? `✗ ${reason}` : "✓"} ${written(shown.value[row], shown.unit)}`;
        return number(text, (reason ? "broken" : "kept") + here);
      });
      return line([element("th", value === null ? shown.title : label(down, value), { scope: "row" }), ...cells]);
    });
    table.tBodies[0].replaceChildren(...lines);
  };

  const curve = (lanes, places) => {
    const data = window.roofline.data("explorer-curve");
    if (!data) return;
    const user = named(figures, "user_tok_s");
    const rate = named(figures, "throughput_per_gpu_tok_s") || named(figures, "output_per_gpu_tok_s");
    const across = numbers[0];
    data.forEach((trace, side) => {
      const points = [];
      (lanes[side] && across ? across.values : [null]).forEach((value, i) => {
        const row = lanes[side] && rowOf(lanes[side], across ? [i, ...places.slice(1)] : []);
        if (row === undefined || !(user.value[row] > 0)) return;
        points.push({ row, value, here: !across || i === places[0] });
      });
      trace.x = points.map(({ row }) => user.value[row]);
      trace.y = points.map(({ row }) => rate.value[row]);
      const arm = (end, sign) => points.map(({ row }) => Math.max(0, sign * ((rate[end]?.[row] ?? rate.value[row]) - rate.value[row])));
      Object.assign(trace.error_y, { type: "data", symmetric: false, array: arm("high", 1), arrayminus: arm("low", -1) });
      trace.marker.size = points.map(({ here }) => (here ? 13 : 7));
      trace.hovertext = points.map(({ row, value }) =>
        [
          across ? `${trace.name}: ${across.title.toLowerCase()} ${digits(value)}` : trace.name,
          `${written(user.value[row], user.unit)} for one user`,
          `${written(rate.value[row], rate.unit)} of a GPU`,
          ...(broken(row) ? [`breaks ${broken(row)}`] : []),
        ].join("<br>"),
      );
    });
    window.roofline.redraw("explorer-curve", data);
  };

  let waiting = false;
  const update = (control) => {
    waiting = false;
    const moved = settle(control);
    const places = at();
    sliders.forEach((slider, i) => {
      const text = written(numbers[i].values[places[i]], numbers[i].unit);
      slider.nextElementSibling.textContent = text;
      slider.setAttribute("aria-valuetext", text);
    });
    const lanes = SIDES.map((side) => (axes.length ? chosen(side) : []));
    fill(lanes, places, moved && Boolean(control));
    map(lanes[0], places);
    curve(lanes, places);
  };
  root.addEventListener("input", ({ target }) => {
    if (!waiting) requestAnimationFrame(() => update(target));
    waiting = true;
  });
  root.hidden = false;
  update();
})();
