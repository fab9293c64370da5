// Lets the search work where the site is read as files: a browser starts no worker from a file, so that the worker's
// script runs in a hidden frame of the page instead. Material for MkDocs loads it before its own scripts.
if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      (document.body ?? document.documentElement).append(frame);
      const inside = frame.contentWindow;
      inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      this.loaded = new Promise((resolve, reject) => Object.assign(script, { onload: resolve, onerror: reject }));
      script.src = new URL(url, location.href).href;
      inside.document.body.append(script);
      this.inside = inside;
    }
    postMessage(data) {
      this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }
  };
}
