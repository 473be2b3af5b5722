"""The report in a real browser: its script sorts, filters and tells values; the page fits."""

import json
import re
import shutil
import subprocess
from itertools import pairwise

import pytest

from fake_runs import fake_run
from feda3i.report.build import write_report
from feda3i.report.runs import read_run

CHROMIUM = shutil.which("chromium")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CHROMIUM, reason="needs Chromium")]
PLAYED = """<pre id="played"></pre><script>
const one = (css) => document.querySelector(css);
const all = (css) => [...document.querySelectorAll(css)];
const tip = one("#tip");
const press = (at, key) => at.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
const numbers = () => all("#sites tbody tr").map((row) => parseFloat(row.cells[1].textContent));
const found = { wide: document.documentElement.scrollWidth - innerWidth, hidden: tip.hidden };
one("#sites thead th:nth-child(2) button").click();
found.down = numbers();
found.sorted = one("#sites thead th:nth-child(2)").ariaSort;
one("#sites thead th:nth-child(2) button").click();
found.up = numbers();
const dot = one("#survey .dot[data-site='site-12']");
dot.dispatchEvent(new Event("pointerenter"));
found.told = tip.textContent;
press(dot, "Escape");
found.gone = tip.hidden;
const stop = ".dot[tabindex='0']";
found.stops = all("#survey svg.plot").map((plot) => plot.querySelectorAll(stop).length);
one("#survey .dot").focus();
press(one("#survey .dot"), "ArrowRight");
found.next = tip.textContent === document.activeElement.getAttribute("aria-label");
press(one("#learning svg"), "ArrowLeft");
found.read = tip.textContent;
one("#filter").value = "E-07";
one("#filter").dispatchEvent(new Event("input"));
found.rows = all("#sites tbody tr").filter((row) => !row.hidden).length;
found.count = one("#found").textContent;
found.bright = [...new Set(all("#survey .dot[data-site]:not(.faded)").map((d) => d.dataset.site))];
found.levels = all("h1,h2,h3,h4").map((h) => +h.tagName[1]);
one("#played").textContent = JSON.stringify(found);
</script></body>"""


@pytest.mark.parametrize("width", [500, 1200])
def test_the_script_of_a_report_does_what_readers_expect(tmp_path, width):
    runs = [
        fake_run(tmp_path / f"{m}-{s}", method=m, seed=s, sites=12, start=0.5 + 0.01 * s)
        for m in ("fedavg", "feda3i")
        for s in range(2)
    ]
    page = tmp_path / "report.html"
    write_report(list(map(read_run, runs)), page)
    # Its policy allows no script but its own, so the copy has none.
    text = re.sub(r"<meta http-equiv=\"Content-Security-Policy\".*?/>", "", page.read_text("utf-8"))
    page.write_text(text.replace("</body>", PLAYED), "utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    flags += [f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900", "--dump-dom"]
    done = subprocess.run([CHROMIUM, *flags, page.as_uri()], capture_output=True, text=True)
    found = json.loads(re.search(r'<pre id="played">(.*?)</pre>', done.stdout, re.S)[1])
    assert found["wide"] <= 0, "no sideways scrolling"
    assert found["down"] == sorted(found["up"], reverse=True)
    assert (found["sorted"], found["up"]) == ("descending", sorted(found["up"]))
    assert found["hidden"]
    assert found["gone"]
    told = r"site-12: draws larger; inside 0\.900, outside 0\.300; true mu \+6\.0 px"
    assert re.match(told, found["told"])
    assert set(found["stops"]) <= {0, 1}, "one stop of the tab key per plot"
    assert found["next"]
    assert found["read"].splitlines()[:2] == ["round 3", "fedavg, 2 seeds: 0.565"]
    assert (found["rows"], found["count"]) == (1, "1 of 12")
    assert found["bright"] == ["site-07"]
    assert all(b <= a + 1 for a, b in pairwise(found["levels"]))
