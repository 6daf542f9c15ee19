// Mounts the interactive figures of a page without a kernel. Each is an ES module that follows
// anywidget's contract, render({ model, el }); the page supplies a small model.
(() => {
  const here = document.currentScript.src;

  function makeModel(state) {
    const values = { ...state };
    const listeners = {};
    const changed = new Set();
    return {
      get: (name) => values[name],
      set(name, value) {
        if (values[name] === value) return;
        values[name] = value;
        changed.add(name);
        for (const listener of listeners[`change:${name}`] ?? []) listener();
      },
      on(event, listener) {
        (listeners[event] ??= []).push(listener);
      },
      off(event, listener) {
        listeners[event] = (listeners[event] ?? []).filter((other) => other !== listener);
      },
      save_changes() {
        if (changed.size) for (const listener of listeners.change ?? []) listener();
        changed.clear();
      },
    };
  }

  async function mount(place) {
    try {
      const module = await import(new URL(`widgets/${place.dataset.module}`, here).href);
      const el = document.createElement("div");
      module.default.render({ model: makeModel(JSON.parse(place.dataset.state)), el });
      place.replaceChildren(el);
      place.dataset.mounted = "";
    } catch (error) {
      const note = document.createElement("p");
      note.className = "slr-note";
      note.textContent = location.protocol === "file:"
        ? "Browsers do not run this figure's script from a file. The interactive version needs `make serve`."
        : "The interactive version of this figure could not be started; this is its static form.";
      place.append(note);
      if (location.protocol !== "file:") console.error(error);
    }
  }

  document.querySelectorAll(".slr-widget").forEach(mount);
})();
