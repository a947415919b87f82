# SPDX-License-Identifier: Apache-2.0
"""What hostile code shows, names and sends: nothing of it runs with the page's origin, and the page stays usable."""

import json

import pytest
import rest_client
import web_page
from web_page import expect

# `pwned` is a function of the page (web_page.WATCH): only a script with the page's origin can call it.
MARKUP = [
    "<script>pwned(1)</script>", "<img src=x onerror=pwned(2)>", "<svg onload=pwned(3)></svg>", "<iframe srcdoc='<script>parent.pwned(4)</script>'></iframe>",
    "<a href='javascript:pwned(5)' id=click>x</a>", "<object data='javascript:pwned(6)'></object>", "<details open ontoggle=pwned(7)>x</details>",
    "<form action='javascript:pwned(8)'><button>x</button></form>", "<body onload=pwned(9)>", "<video><source onerror=pwned(10)></video>",
    "<math><mtext><script>pwned(11)</script></mtext></math>", "<base href='https://evil.example/'>", "<meta http-equiv=refresh content='0;url=javascript:pwned(12)'>",
    "<link rel=stylesheet href='https://evil.example/x.css'>", "<style>@import 'https://evil.example/y.css'; * { background: url(https://evil.example/z) }</style>",
    "<script>top.location = 'https://evil.example/'</script>", "<script>parent.document.title = 'pwned'; parent.pwned(13)</script>",
    "<script>fetch('/api/v1/sessions').then(r => r.text()).then(t => parent.postMessage({height: 1e9, stolen: t}, '*'))</script>",
    "<script>for (let i = 0; i < 50; i++) parent.postMessage({height: i % 2 ? 1e12 : -5, ready: 'x', html: '<script>pwned(14)<\\/script>'}, '*')</script>",
    "<script>opener && opener.pwned(15); localStorage.length; document.cookie</script>", "<template><script>pwned(16)</script></template>",
    "\u202e<b onmouseover=pwned(17)>gnp.exe</b>", "<!--><script>pwned(18)</script>-->", "<noscript><p title='</noscript><img src=x onerror=pwned(19)>'>",
]
TYPES = ["text/html", "image/svg+xml", "text/markdown", "text/latex", "text/plain"]
OTHERS = [
    {"text/markdown": "[x](javascript:pwned(20)) ![x](javascript:pwned(21)) <javascript:pwned(22)> ![y](https://evil.example/p.png)"},
    {"text/markdown": "> " * 2000 + "deep", "text/plain": "deep"},
    {"text/latex": r"$\href{javascript:pwned(23)}{x} \htmlData{a=b}{x} \includegraphics{https://evil.example/q.png}$"},
    {"text/latex": r"$\def\a{\a\a}\a$"}, {"text/latex": "$" + "{" * 3000 + "$"},
    {"image/svg+xml": "<svg xmlns='http://www.w3.org/2000/svg'><script>parent.pwned(24)</script><image href='https://evil.example/i.png'/><foreignObject><iframe xmlns='http://www.w3.org/1999/xhtml' src='javascript:parent.pwned(25)'/></foreignObject></svg>"},
    {"application/json": {"__proto__": {"x": "<img src=x onerror=pwned(26)>"}}},
    {"application/vnd.plotly.v1+json": {"data": [{"type": "scatter", "y": [1, 2], "name": "<img src=x onerror=parent.pwned(27)>"}], "layout": {"title": {"text": "<a href='javascript:parent.pwned(28)'>t</a>"}, "images": [{"source": "https://evil.example/l.png"}]}}},
    {"application/vnd.plotly.v1+json": {"data": "<script>pwned(29)</script>", "layout": {"height": 1e9}}},
    {"text/html": "<table class=\"dataframe\"><tr><th>&lt;script&gt;pwned(30)&lt;/script&gt;</th></tr><tr><td><b onclick=pwned(31)>x</b>&#x202e;</td></tr></table>"},
]
BUNDLES = [{kind: text, "text/plain": "x"} for kind in TYPES[:4] for text in MARKUP[::2]] + [{"text/html": t} for t in MARKUP[1::2]] + OTHERS


@pytest.fixture(scope="module")
def server(shared_cli):
    client = rest_client.serve(shared_cli)
    yield client
    client.process.terminate()
    client.process.wait()


@pytest.fixture(scope="module")
def browser(server):
    with web_page.start() as browser:
        yield browser


def show(bundles):
    return f"import json\nfor one in json.loads({json.dumps(json.dumps(bundles))}): display(one, raw=True)"


def own_faults(window):
    """What happened with the page's origin. A frame may be refused what it asks for; it may not get it."""
    return window.page.evaluate("window.__bad") + [fault for fault in window.faults if fault.startswith("request ")]


def test_no_script_of_fifty_outputs_runs_with_the_origin_of_the_page(server, browser):
    assert len(BUNDLES) >= 50
    with browser.open(server.port) as window:
        for start in range(0, len(BUNDLES), 20):
            out = window.run(show(BUNDLES[start:start + 20]))
            out.locator(".display").last.scroll_into_view_if_needed()
        expect(window.page.locator("iframe.frame").first).to_be_attached()
        frames = window.page.locator("iframe.frame")
        assert frames.count() > 20
        for frame in frames.all():
            assert frame.get_attribute("sandbox") == "allow-scripts"
            assert 0 < frame.bounding_box()["height"] <= 905
        inside = [frame for frame in window.page.frames if frame.parent_frame == window.page.main_frame]
        origins = [frame.evaluate("self.origin") for frame in inside]
        assert origins and set(origins) == {"null"}
        for frame in inside[:5]:
            assert frame.evaluate("fetch('/api/v1/sessions').then(() => 'reached', () => 'refused')") == "refused"
        assert window.page.title() == "Constrictor"
        assert own_faults(window) == []


def test_hostile_names_are_shown_as_they_are_and_run_nothing(server, browser):
    names = ["<img src=x onerror=pwned(40)>.txt", "\u202egnp.exe", "a\"onmouseover=pwned(41) b='.csv", "&lt;script&gt;.md"]
    with browser.open(server.port) as window:
        window.run(f"for name in {names!r}: open(name, 'w').write('<script>pwned(42)</script>,b\\n1,2\\n')\n"
                   "globals()['<img src=x onerror=pwned(43)>'] = 1\n"
                   "raise type('<svg onload=pwned(44)>', (Exception,), {})('\\u202e<script>pwned(45)</script>')", "error")
        expect(window.cell(0).locator(".error-text")).to_contain_text("⟨U+202E⟩")
        window.page.get_by_role("tab", name="Files").click()
        expect(window.page.locator(".file-name")).to_have_count(4)
        expect(window.page.locator(".file-list")).to_contain_text("⟨U+202E⟩gnp.exe")
        expect(window.page.locator(".file-list")).to_contain_text("<img src=x onerror=pwned(40)>.txt")
        for i in range(4):
            window.page.locator(".file-name").nth(i).click()
            expect(window.page.locator(".preview-dialog")).to_be_visible()
            window.page.keyboard.press("Escape")
        assert own_faults(window) == []


def test_a_flood_of_output_leaves_the_page_usable(server, browser):
    with browser.open(server.port) as window:
        window.run("for i in range(100_000): print(i)")
        box = window.cell(0).locator(".text.virtual")
        expect(box).to_contain_text("99999")
        assert window.page.evaluate("document.querySelector('.text.virtual').textContent.length") < 10_000
        box.evaluate("e => e.scrollTop = 20 * 50_000")
        expect(box).to_contain_text("50000")
        out = window.run("for i in range(1000): display({'image/svg+xml': '<svg xmlns=\"http://www.w3.org/2000/svg\"/>'}, raw=True)")
        assert out.locator("img").count() <= 40
        assert window.run("import sys\nfor _ in range(10**6): sys.stdout.write('y' * 1000)", "too much output").count() == 1
        assert window.faults == []
