// The development page: forms from schemas, live events, answers. Plain DOM; text never becomes markup.
"use strict";

const byId = (id) => document.getElementById(id);
let current = null; // the run that is shown
let version = null; // which load of the agent's code the forms were made from

function make(tag, properties, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== null) element[name] = value;
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function headers(more) {
  const token = byId("token").value;
  return { "content-type": "application/json", ...(token ? { authorization: `Bearer ${token}` } : {}), ...more };
}

async function send(method, path, body) {
  const answer = await fetch(path, { method, headers: headers(), body: body && JSON.stringify(body) });
  const text = await answer.text();
  let value = {};
  try { value = JSON.parse(text); } catch { value = { error: text }; }
  if (!answer.ok) throw new Error(value.error || answer.statusText);
  return value;
}

// Forms

function resolve(schema, root) {
  if (schema.$ref && schema.$ref.startsWith("#/$defs/")) return (root.$defs || {})[schema.$ref.slice(8)] || {};
  const options = (schema.anyOf || []).filter((one) => one.type !== "null");
  if (options.length === 1) return { ...schema, ...resolve(options[0], root) };
  return schema;
}

function field(name, given, root, required) {
  const schema = resolve(given, root);
  const label = schema.title && schema.title.toLowerCase() !== name.replaceAll("_", " ") ? schema.title : name;
  const described = schema.description ? make("small", {}, ` ${schema.description}`) : null;
  const start = given.default;
  let input, read;
  if (schema.enum || schema.const !== undefined) {
    const values = schema.enum || [schema.const];
    input = make("select", { name, required }, ...(required ? [] : [make("option", { value: "" }, "—")]),
      ...values.map((value) => make("option", { value: JSON.stringify(value), selected: value === start }, String(value))));
    read = () => (input.value === "" ? undefined : JSON.parse(input.value));
  } else if (schema.type === "boolean") {
    input = make("input", { type: "checkbox", name, checked: start === true });
    read = () => input.checked;
  } else if (schema.type === "integer" || schema.type === "number") {
    input = make("input", { type: "number", name, required, step: schema.type === "integer" ? 1 : "any",
      min: schema.minimum ?? "", max: schema.maximum ?? "", value: start ?? "" });
    read = () => (input.value === "" ? undefined : Number(input.value));
  } else if (schema.type === "string") {
    const long = (schema.maxLength || 0) > 200 || /text|body|prompt|content/.test(name);
    input = make(long ? "textarea" : "input", { name, required, value: start ?? "", rows: long ? 4 : undefined });
    read = () => (input.value === "" && !required ? undefined : input.value);
  } else {
    input = make("textarea", { name, required, rows: 3, placeholder: "JSON",
      value: start === undefined || start === null ? "" : JSON.stringify(start) });
    read = () => (input.value.trim() === "" ? undefined : JSON.parse(input.value));
  }
  const caption = `${label}${required ? " *" : ""}`;
  const element = schema.type === "boolean" ? make("label", {}, input, caption, described) : make("label", {}, caption, described, input);
  return { name, element, read };
}

function form(schema, button, submit) {
  const wanted = new Set(schema.required || []);
  const fields = Object.entries(schema.properties || {}).map(([name, one]) => field(name, one, schema, wanted.has(name)));
  const note = make("p", { class: "failed", role: "alert" });
  const act = make("button", { type: "submit" }, button);
  const element = make("form", {
    onsubmit: async (event) => {
      event.preventDefault();
      note.textContent = "";
      act.disabled = true;
      try {
        const values = {};
        for (const one of fields) {
          const value = one.read();
          if (value !== undefined) values[one.name] = value;
        }
        await submit(values);
      } catch (problem) {
        note.textContent = problem instanceof SyntaxError ? `not JSON: ${problem.message}` : problem.message;
      } finally {
        act.disabled = false;
      }
    },
  }, ...fields.map((one) => one.element), make("div", { class: "row" }, act), note);
  return element;
}

function showSkills(state) {
  byId("skills").replaceChildren(...state.skills.map((skill) => {
    const made = form(skill.input_schema, "Run", (values) => start(skill.id, values));
    made.prepend(make("h3", {}, skill.id), make("p", { class: "hint" }, skill.description || ""));
    made.id = `skill-${skill.id}`;
    return made;
  }));
}

// Runs

async function start(skill, values) {
  const answer = await fetch(`/invoke/${encodeURIComponent(skill)}`, {
    method: "POST", headers: headers({ accept: "text/event-stream" }), body: JSON.stringify({ arguments: values }),
  });
  if (!answer.ok) throw new Error((await answer.json()).error);
  const run = open(skill);
  follow(run, answer);
}

function open(skill, id) {
  const run = { id, skill, seen: 0, over: false };
  run.state = make("strong", {}, "running");
  run.events = make("ol", {});
  run.text = make("pre", { hidden: true });
  run.asking = make("div", {});
  run.files = make("ul", {});
  run.outcome = make("div", {});
  run.cancel = make("button", { class: "quiet", onclick: () => send("POST", `/runs/${run.id}/cancel`) }, "Cancel");
  current = run;
  byId("run").replaceChildren(make("div", { class: "row" }, make("span", {}, skill), run.state, run.cancel),
    run.asking, run.text, run.files, run.outcome, make("details", { open: true }, make("summary", {}, "Events"), run.events));
  return run;
}

async function follow(run, first) {
  let answer = first;
  while (!run.over && current === run) {
    try {
      if (!answer) {
        answer = await fetch(`/runs/${run.id}/events`, {
          headers: headers({ accept: "text/event-stream", "last-event-id": `${run.id}:${run.seen}` }) });
        if (!answer.ok) return tell(run, { type: "error", error: (await answer.json()).error, code: "" });
      }
      await read(run, answer.body.getReader());
    } catch (problem) {
      if (!run.id) return;
    }
    answer = null;
    if (!run.over) await new Promise((done) => setTimeout(done, 300));
  }
  showRuns();
}

async function read(run, reader) {
  const decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done || current !== run) return;
    const frames = (rest + decoder.decode(value, { stream: true })).split("\n\n");
    rest = frames.pop();
    for (const frame of frames) {
      const data = frame.split("\n").find((line) => line.startsWith("data: "));
      if (data && data !== "data: [DONE]") tell(run, JSON.parse(data.slice(6)));
    }
  }
}

function tell(run, frame) {
  run.id = frame.run_id || run.id;
  if (frame.seq) run.seen = frame.seq;
  if (frame.type === "event") return event(run, frame.kind, frame.payload);
  run.over = true;
  run.cancel.disabled = true;
  run.asking.replaceChildren();
  const failed = frame.type === "error";
  state(run, failed ? "failed" : "succeeded");
  if (failed) return run.outcome.replaceChildren(make("pre", { class: "failed" }, `${frame.code}: ${frame.error}`));
  run.outcome.replaceChildren(make("h3", {}, "Result"), make("pre", { id: "result" },
    typeof frame.result === "string" ? frame.result : JSON.stringify(frame.result, null, 2)));
  run.files.replaceChildren();
  for (const one of frame.artifacts) file(run, one);
}

function state(run, name) {
  run.state.textContent = name;
  run.state.className = name;
}

function event(run, kind, payload) {
  if (kind === "text_delta") {
    run.text.hidden = false;
    run.text.textContent += payload.text;
    return;
  }
  if (kind === "artifact") file(run, payload);
  if (kind === "question" || kind === "input_request") ask(run, kind, payload);
  if (kind === "interaction_closed") { run.asking.replaceChildren(); state(run, "running"); }
  const said = kind === "progress" ? payload.message : Object.keys(payload).length ? JSON.stringify(payload) : "";
  run.events.append(make("li", {}, make("b", {}, kind), said ? ` ${said}` : ""));
}

function file(run, ref) {
  const path = `/runs/${run.id}/artifacts/${ref.name.split("/").map(encodeURIComponent).join("/")}`;
  run.files.append(make("li", {}, make("a", { href: path, className: "artifact" }, ref.name),
    ` ${ref.mime_type}, ${ref.size_bytes} bytes`));
}

function ask(run, kind, payload) {
  state(run, "waiting");
  const id = payload.question_id || payload.request_id;
  const path = kind === "question" ? `/answers/${id}` : `/input-requests/${id}`;
  const schema = kind === "question"
    ? { properties: { answer: { type: "string", title: "Answer" } }, required: ["answer"] } : payload.schema;
  const made = form(schema, "Answer", (values) => send("POST", path, kind === "question" ? values : { value: values }));
  made.id = "asking";
  made.prepend(make("h3", {}, payload.prompt || payload.title), make("p", { class: "hint" }, payload.reason || ""));
  made.querySelector(".row").append(make("button", { class: "quiet", type: "button",
    onclick: () => send("POST", path, { declined: true }) }, "Decline"));
  run.asking.replaceChildren(made);
}

async function showRuns() {
  const { runs } = await send("GET", "/_dev/api/runs");
  if (!runs.length) return;
  byId("runs").replaceChildren(...runs.map((one) => make("button", { class: `quiet past ${one.state}`,
    onclick: () => { const run = open(one.skill, one.run_id); follow(run, null); } },
  `${one.skill} · ${one.state} · ${new Date(one.created_at).toLocaleTimeString()}`)));
}

async function look() {
  try {
    const known = await send("GET", `/_dev/api/state`);
    byId("problem").hidden = !known.problem;
    byId("problem").textContent = known.problem || "";
    if (known.version !== version) {
      version = known.version;
      byId("agent").textContent = `${known.name} ${known.agent_version}`;
      document.title = `${known.name} · molecule-skill dev`;
      byId("description").textContent = known.description;
      byId("token-field").hidden = !known.needs_token;
      showSkills(known);
    }
  } catch (problem) {
    byId("problem").hidden = false;
    byId("problem").textContent = `The server does not answer: ${problem.message}`;
  }
  setTimeout(look, 500);
}

look();
showRuns().catch(() => {});
