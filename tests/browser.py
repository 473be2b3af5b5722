"""A real browser for tests: Chromium without a window, driven through its DevTools pipe.

Nothing is installed for it beyond the browser itself; tests skip where there is none.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-sync", "--disable-background-networking", "--disable-component-update"),
    *("--disable-dev-shm-usage", "--hide-scrollbars", "--remote-debugging-pipe"),
)
PATIENCE = 60
"""Seconds of silence after which the browser is given up: a guard, nothing waits for it."""


def find_browser():
    """Return the program, or ``None``."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One tab. Every call waits for what it caused, never for a clock."""

    def __init__(self, width=1200, height=900, dark=False, scripts=True):
        self._profile = tempfile.mkdtemp(prefix="feda3i-browser-")
        there, self._out = os.pipe()
        self._in, back = os.pipe()
        program = [find_browser(), *FLAGS, f"--user-data-dir={self._profile}", "about:blank"]

        def wires():
            # Far from 3 and 4 first: the pipes themselves may have these numbers.
            a, b = os.dup(there), os.dup(back)
            os.dup2(a, 3)
            os.dup2(b, 4)

        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self._process = subprocess.Popen(program, preexec_fn=wires, close_fds=False, **quiet)
        os.close(there)
        os.close(back)
        self._buffer, self._number, self._session = b"", 0, None
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Accessibility"):
            self.call(f"{domain}.enable")
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        if not scripts:
            self.call("Emulation.setScriptExecutionDisabled", value=True)

    def call(self, method, **params):
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == self._number:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def _next(self):
        while b"\0" not in self._buffer:
            assert select.select([self._in], [], [], PATIENCE)[0], "the browser is silent"
            more = os.read(self._in, 1 << 20)
            assert more, "the browser went away"
            self._buffer += more
        line, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(line)

    def open(self, path: Path):
        self.address = path.resolve().as_uri()
        self.call("Page.navigate", url=self.address)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def run(self, script):
        how = {"returnByValue": True, "awaitPromise": True}
        found = self.call("Runtime.evaluate", expression=script, **how)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def point_at(self, selector):
        place = self.run(
            f"(() => {{const e = document.querySelector({selector!r});"
            "e.scrollIntoView({block: 'center', behavior: 'instant'});"
            "const b = e.getBoundingClientRect();"
            "return [b.x + b.width / 2, b.y + b.height / 2]})()"
        )
        # The page hides tips when it scrolls; two frames later that is over.
        self.run("new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=place[0], y=place[1])
        return place

    def click(self, selector):
        x, y = self.point_at(selector)
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def press(self, key, code=0):
        """Press a key; ``code`` is its virtual key code, for those that do something."""
        for kind in ("keyDown", "keyUp"):
            letter = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
            text = {"text": letter} if letter and kind == "keyDown" else {}
            given = {"type": kind, "key": key, "windowsVirtualKeyCode": code}
            self.call("Input.dispatchKeyEvent", **given, **text)

    def screenshot(self, path: Path):
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        whole = {"captureBeyondViewport": True, "clip": clip}
        data = self.call("Page.captureScreenshot", format="png", **whole)["data"]
        Path(path).write_bytes(base64.b64decode(data))

    def complaints(self):
        """Return errors and warnings of scripts, console and policy."""
        found = []
        for event in self.events:
            method, params = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(params["exceptionDetails"]["text"])
            if method == "Runtime.consoleAPICalled":
                found.append(str(params["args"]))
            if method == "Log.entryAdded":
                found.append(params["entry"]["text"])
        return found

    def requests(self):
        """Return what the page asked for beside itself; data within it do not count."""
        asked = [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]
        return [url for url in asked if url != self.address and not url.startswith("data:")]

    def close(self):
        self._session = None
        self.call("Browser.close")
        os.close(self._out)
        self._process.wait(PATIENCE)
        os.close(self._in)
        shutil.rmtree(self._profile, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
