# SPDX-License-Identifier: Apache-2.0
"""The page in Debian's chromium, driven by Playwright: what tests of it share.

`Browser` starts one; `open()` opens the page in a window of its own and watches it: an error of the page, a report of its
Content-Security-Policy, or a request to another host fails the test that looks at `faults`.
"""

import contextlib
import os
import re

from playwright.sync_api import expect, sync_playwright

WAIT_MS = int(os.environ.get("WEB_WAIT_MS", "60000"))
DESKTOP, PHONE = {"width": 1360, "height": 860}, {"width": 390, "height": 844}
AXE = "build/web/node_modules/axe-core/axe.min.js"
expect.set_options(timeout=WAIT_MS)

# Alive in the page's own origin before its first script: what hostile output would call or leave behind.
WATCH = """
window.__bad = [];
window.pwned = (what) => window.__bad.push(String(what));
for (const name of ['alert', 'confirm', 'prompt']) window[name] = (text) => window.__bad.push(name + ' ' + text);
document.addEventListener('securitypolicyviolation', (event) =>
    window.__bad.push('csp ' + event.effectiveDirective + ' ' + event.blockedURI + ' ' + event.sample));
"""


class Window:
    """One window with the page."""

    def __init__(self, page, url):
        self.page, self.url, self.faults = page, url, []
        page.set_default_timeout(WAIT_MS)
        page.on("pageerror", lambda error: self.faults.append(f"error {error}"))
        # What a policy blocks does not come this far.
        page.context.route(lambda asked: not asked.startswith((url, "data:", "blob:")), self.refuse)

    def refuse(self, route):
        self.faults.append(f"request {route.request.url}")
        route.abort()

    def go(self, place=""):
        self.page.goto(self.url + "/" + place)
        return self

    def all_faults(self):
        return self.faults + self.page.evaluate("window.__bad")

    def cell(self, number=-1):
        return self.page.locator(".cell").nth(number)

    def write(self, code, number=-1):
        """The code of a cell, as a person would paste it."""
        self.cell(number).locator(".cm-content").click()
        self.page.keyboard.press("ControlOrMeta+a")
        self.page.keyboard.press("Delete")
        self.page.keyboard.insert_text(code)

    def run(self, code, verdict="ok", number=-1):
        """Writes a cell, runs it with Shift+Enter, waits for its end; returns its output."""
        expect(self.cell(0)).to_be_visible()
        count = self.page.locator(".cell").count()
        number = number if number >= 0 else count - 1
        self.write(code, number)
        self.page.keyboard.press("Shift+Enter")
        self.ended(number, verdict)
        return self.cell(number).locator(".cell-out")

    def ended(self, number, verdict="ok"):
        state = self.cell(number).locator(".state.good, .state.bad")
        expect(state).to_have_text(re.compile("^" + re.escape(verdict)))

    def axe(self):
        """What axe-core finds wrong with the page as it is now."""
        if not self.page.evaluate("typeof axe === 'object'"):
            with open(AXE, encoding="utf-8") as file:
                self.page.evaluate(file.read() + "; undefined")
        found = self.page.evaluate("""axe.run({exclude: [['iframe']]}, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa',
            'wcag22aa', 'best-practice']}).then((r) => r.violations.map((v) => v.id + ': ' + v.help + ' ' +
            v.nodes.map((n) => n.target + ' ' + n.failureSummary).slice(0, 3).join(' | ')))""")
        return found


class Browser:
    def __init__(self, browser):
        self.browser = browser

    @contextlib.contextmanager
    def open(self, port, place="", size=None, dark=False):
        context = self.browser.new_context(viewport=size or DESKTOP, color_scheme="dark" if dark else "light",
                                           reduced_motion="reduce", accept_downloads=True)
        try:
            context.add_init_script(WATCH)
            yield Window(context.new_page(), f"http://127.0.0.1:{port}").go(place)
        finally:
            context.close()


@contextlib.contextmanager
def start():
    with sync_playwright() as playwright:
        # Its sandbox needs what root and containers do not give; it meets only our pages.
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"],
                                             env={**os.environ, "HOME": os.environ.get("TMPDIR", "/tmp")})
        try:
            yield Browser(browser)
        finally:
            browser.close()
