"""A small driver of headless Chromium over its debugging pipe: no package, no port, no network."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

EXECUTABLE = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (found := shutil.which(name))
    ),
    None,
)
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND",
    "--remote-debugging-pipe",
)
_PATIENCE_S = 200.0
_DRAWN = (
    "(async () => { while (document.querySelectorAll('[data-figure]:not(.js-plotly-plot)').length)"
    " await new Promise((go) => setTimeout(go, 5)); })()"
)
_KEYS = {"Tab": 9, "Enter": 13, " ": 32, "ArrowRight": 39}


class Chromium:
    """One browser process with one page at a time; every host name leads nowhere."""

    def __init__(self) -> None:
        assert EXECUTABLE is not None
        self._home = tempfile.TemporaryDirectory(prefix="capplan-chromium-")
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()
        command = [EXECUTABLE, *_FLAGS, f"--user-data-dir={self._home.name}", "about:blank"]
        # The browser reads commands from descriptor 3 and writes answers to 4.
        shell = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", shell, "bash", *command],
            pass_fds=(to_read, to_write),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_read)
        os.close(to_write)
        self._number = 0
        self._rest = b""
        self._session = ""
        self.events: list[dict[str, Any]] = []

    def close(self) -> None:
        """End the browser and whatever it started."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
        self._home.cleanup()

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Send one command and return its result."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session and not method.startswith(("Target.", "Browser.")):
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + _PATIENCE_S
        while b"\0" not in self._rest:
            left = deadline - time.monotonic()
            ready, _, _ = select.select([self._from], [], [], max(left, 0.0))
            assert ready, "Chromium does not answer"
            self._rest += os.read(self._from, 1 << 20)
        message, _, self._rest = self._rest.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found

    def wait_for(self, event: str) -> dict[str, Any]:
        """Return the first event of a kind, those already seen included."""
        while True:
            found = next((one for one in self.events if one.get("method") == event), None)
            if found is not None:
                return found
            self.events.append(self._receive())

    def open(
        self,
        path: Path,
        *,
        width: int = 1280,
        height: int = 900,
        script: bool = True,
        media: Mapping[str, str] | None = None,
        bypass_policy: bool = False,
        count_cpu: bool = False,
    ) -> None:
        """Load a file in a new page and wait until it and its figures are there.

        With ``count_cpu`` nothing is observed but the clock, as on a reader's machine: for an
        observer V8 notes where every error arose, also those that plotly's tests of features
        throw and catch, and reads megabytes of script three times more for that.
        """
        self.events.clear()
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page",) if count_cpu else ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.size(width, height)
        self.media(media or {})
        self.send("Emulation.setScriptExecutionDisabled", value=not script)
        self.send("Page.setBypassCSP", enabled=bypass_policy)
        if count_cpu:
            self.send("Performance.enable", timeDomain="threadTicks")
        self.events.clear()
        self.send("Page.navigate", url=path.as_uri())
        self.wait_for("Page.loadEventFired")
        if script and not count_cpu:
            self.settle()

    def settle(self) -> None:
        """Wait until every figure is drawn: the page does so one by one, when it is idle."""
        self.value(_DRAWN)

    def cpu_s(self) -> float:
        """Return the CPU seconds of the page's thread so far; needs ``count_cpu``."""
        metrics = self.send("Performance.getMetrics")["metrics"]
        return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))

    def size(self, width: int, height: int) -> None:
        """Set the window's size."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def media(self, features: Mapping[str, str]) -> None:
        """Emulate media features, and a type under ``type``."""
        # No smooth scrolling: a place is clicked where it was measured.
        wanted = {"prefers-reduced-motion": "reduce", **features}
        rest = [{"name": k, "value": v} for k, v in wanted.items() if k != "type"]
        self.send("Emulation.setEmulatedMedia", media=features.get("type", ""), features=rest)

    def value(self, expression: str) -> Any:
        """Return what an expression evaluates to in the page."""
        found = self.send(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def complaints(self) -> list[str]:
        """Return what console, log and uncaught errors said since the page was opened."""
        self.value("0")
        kinds = {"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"}
        return [json.dumps(one["params"]) for one in self.events if one.get("method") in kinds]

    def requests(self) -> list[str]:
        """Return the addresses asked for since the page was opened, its own file left out.

        What the page's policy stopped was announced and never asked for.
        """
        self.value("0")
        stopped = {
            one["params"]["requestId"]
            for one in self.events
            if one.get("method") == "Network.loadingFailed"
            and one["params"].get("blockedReason") == "csp"
        }
        asked = [
            one["params"]
            for one in self.events
            if one.get("method") == "Network.requestWillBeSent"
        ]
        urls = [one["request"]["url"] for one in asked if one["requestId"] not in stopped]
        return [url for url in urls if not url.startswith(("file://", "data:", "blob:"))]

    def click(self, selector: str) -> None:
        """Press the middle of an element with the mouse."""
        place = self.value(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            "e.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const [r] = e.getClientRects();"
            "return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self.send(
                "Input.dispatchMouseEvent",
                type=kind,
                x=place[0],
                y=place[1],
                button="left",
                clickCount=1,
            )

    def press(self, key: str) -> None:
        """Press and release a key."""
        code = _KEYS[key]
        text = {"text": "\r"} if key == "Enter" else {"text": " "} if key == " " else {}
        for kind in ("keyDown", "keyUp"):
            self.send(
                "Input.dispatchKeyEvent",
                type=kind,
                key=key,
                code="Space" if key == " " else key,
                windowsVirtualKeyCode=code,
                **(text if kind == "keyDown" else {}),
            )

    def picture(self, path: Path, *, top: float = 0, height: float | None = None) -> None:
        """Write a part of the page as PNG; all of it by default."""
        size = self.value("[document.documentElement.clientWidth, document.body.scrollHeight]")
        clip = {"x": 0, "y": top, "width": size[0], "height": height or size[1], "scale": 1}
        found = self.send("Page.captureScreenshot", clip=clip, captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(found["data"]))

    def pdf(self) -> bytes:
        """Print the page."""
        found = self.send("Page.printToPDF", printBackground=True, preferCSSPageSize=True)
        return base64.b64decode(found["data"])
