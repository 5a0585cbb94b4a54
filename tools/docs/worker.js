// Runs a worker's script in a hidden frame: browsers refuse workers in pages that are opened as files.
if (location.protocol === "file:") {
  // Between threads messages are copied, and never handled at once; the page relies on both.
  const send = (target, data) => {
    const copy = structuredClone(data);
    setTimeout(() => target.dispatchEvent(new MessageEvent("message", { data: copy })), 0);
  };
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.documentElement.append(this.frame);
      const inside = this.frame.contentWindow;
      this.ready = new Promise((resolve) => (inside.onready = resolve));
      inside.answer = (data) => send(this, data);
      this.addEventListener("message", (event) => this.onmessage?.(event));
      const page = inside.document;
      page.open();
      page.write("<!doctype html><script>self.postMessage = self.answer</script>");
      page.write('<script src="' + url + '" onload="onready()"></script>');
      page.close();
    }
    postMessage(data) {
      this.ready.then(() => send(this.frame.contentWindow, data));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
