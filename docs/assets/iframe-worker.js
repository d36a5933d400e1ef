// Search from file://, where browsers start no worker: its script runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.appendChild(frame)
      this.inside = frame.contentWindow
      this.inside.postMessage = (data) => this.tell(this, data)
      this.inside.importScripts = (...urls) => Promise.all(urls.map((each) => this.load(each)))
      this.ready = this.load(new URL(url, location.href))
    }

    load(url) {
      return new Promise((done, failed) => {
        const script = this.inside.document.createElement("script")
        script.src = url
        script.onload = done
        script.onerror = failed
        this.inside.document.body.appendChild(script)
      })
    }

    tell(target, data) {
      target.dispatchEvent(new MessageEvent("message", { data }))
    }

    postMessage(data) {
      this.ready.then(() => this.tell(this.inside, data))
    }

    terminate() {
      this.inside.frameElement.remove()
    }
  }
}
