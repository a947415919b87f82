# SPDX-License-Identifier: Apache-2.0
"""The page at /: the console, the files, time travel, the door, in a real browser."""

import json
import pathlib
import subprocess

import pytest
import rest_client
import web_page
from web_page import DESKTOP, PHONE, expect


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


@pytest.fixture
def window(server, browser):
    with browser.open(server.port) as window:
        yield window
        assert window.all_faults() == []


# ---- the console ---------------------------------------------------------------------------------------------------


def test_output_streams_while_the_code_runs_and_the_value_follows(window):
    window.write("import time\nprint('first', flush=True)\nwhile not __import__('os').path.exists('go'): time.sleep(.02)\n40 + 2")
    window.page.keyboard.press("Shift+Enter")
    expect(window.cell(0).locator(".text.stdout")).to_have_text("first")
    expect(window.cell(0).locator(".state.busy")).to_be_visible()
    window.page.evaluate("fetch('/api/v1/sessions/' + location.hash.split('/')[2] + '/files/go', {method: 'PUT', body: 'x'})")
    window.ended(0)
    expect(window.cell(0).locator(".text.result")).to_have_text("42")


def test_variables_and_files_stay_between_cells(window):
    window.run("x = 42; open('note.txt', 'w').write('hello')")
    expect(window.page.locator(".side-body")).to_contain_text("x")
    expect(window.cell(0).locator(".cell-files")).to_contain_text("note.txt")
    expect(window.run("x + 1").locator(".text.result")).to_have_text("43")


def test_an_error_marks_its_line_in_the_editor(window):
    out = window.run("a = 1\nb = a / 0\nc = 3", "error")
    expect(out.locator(".error-text")).to_contain_text("ZeroDivisionError")
    expect(window.cell(0).locator(".cm-failing")).to_have_text("b = a / 0")


def test_a_cell_that_never_ends_is_interrupted_and_the_session_stays(window):
    window.run("kept = 7")
    window.write("print('on', flush=True)\nwhile True: pass")
    window.page.keyboard.press("Shift+Enter")
    expect(window.cell(1).locator(".text.stdout")).to_have_text("on")
    window.page.get_by_role("button", name="Interrupt").click()
    window.ended(1, "stopped")
    expect(window.cell(1).locator(".error-text")).to_contain_text("KeyboardInterrupt")
    expect(window.run("kept").locator(".text.result")).to_have_text("7")


def test_input_asks_in_place(window):
    window.write("name = input('Who are you? ')\nprint('hello', name)")
    window.page.keyboard.press("Shift+Enter")
    window.page.get_by_label("Who are you?").fill("Ada")
    window.page.keyboard.press("Enter")
    window.ended(0)
    expect(window.cell(0).locator(".text.stdout")).to_contain_text("hello Ada")


# ---- what runs show ------------------------------------------------------------------------------------------------

RICH = """
class Show:
    def __init__(self, **b): self.b = {k.replace('_', '/', 1): v for k, v in b.items()}
    def _repr_mimebundle_(self, include=None, exclude=None): return self.b
display({'text/markdown': '## Title\\n- one\\n- **two** $a^2$', 'text/plain': 'm'}, raw=True)
display({'text/latex': r'$\\frac{1}{2}$', 'text/plain': 'l'}, raw=True)
display({'image/svg+xml': '<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40"><rect width="40" height="40"/></svg>'}, raw=True)
display({'text/html': '<h1 id=here>from code</h1><script>document.body.append("script ran")</script>'}, raw=True)
display({'application/vnd.plotly.v1+json': {'data': [{'type': 'bar', 'x': ['a', 'b'], 'y': [3, 5]}], 'layout': {}}}, raw=True)
display({'application/json': {'k': [1, 2]}}, raw=True)
head = '<table class="dataframe"><thead><tr><th></th><th>n</th><th>word</th></tr></thead><tbody>'
display({'text/html': head + ''.join(f'<tr><th>{i}</th><td>{(i * 37) % 1000}</td><td>w{i}</td></tr>' for i in range(2000)) + '</tbody></table>'}, raw=True)
"""


def test_every_kind_of_display_is_drawn(window):
    out = window.run(RICH)
    expect(out.locator(".markdown h4")).to_have_text("Title")
    expect(out.locator(".math .katex-html").first).to_be_visible()
    assert out.locator("img").first.evaluate("e => e.decode().then(() => e.naturalWidth)") == 40
    frames = out.locator("iframe")
    expect(frames).to_have_count(2)
    expect(out.locator(".table-view")).to_contain_text("1 of 20")
    expect(frames.nth(0).content_frame.locator("body")).to_contain_text("script ran")
    frames.nth(1).scroll_into_view_if_needed()
    expect(frames.nth(1).content_frame.locator(".bars path").first).to_be_visible()
    expect(out.get_by_label("JSON")).to_contain_text('"k"')


def test_a_table_of_10000_rows_is_sorted_and_paged(window):
    window.run("with open('t.csv', 'w') as f: f.write('i,n\\n' + ''.join(f'{i},{(i * 37) % 10000}\\n' for i in range(10000)))")
    window.page.get_by_role("tab", name="Files").click()
    window.page.get_by_role("button", name="Preview t.csv").click()
    table = window.page.locator(".preview-dialog .table-view")
    expect(table).to_contain_text("1 of 100")
    assert table.locator("tbody tr").count() == 100
    table.get_by_role("button", name="n", exact=True).click()
    expect(table.locator("tbody tr").first.locator("td").nth(1)).to_have_text("0")
    expect(table.locator("th[aria-sort=ascending]")).to_have_count(1)
    table.get_by_role("button", name="Next rows").click()
    expect(table).to_contain_text("2 of 100")


# ---- files, notebooks, the session ---------------------------------------------------------------------------------


def test_a_csv_is_dropped_read_previewed_downloaded_and_deleted(window, tmp_path):
    window.page.get_by_role("tab", name="Files").click()
    (tmp_path / "cities.csv").write_text("city,sales\nLima,7\n\"Oslo, N\",5\n")
    data = window.page.evaluate_handle("""() => { const d = new DataTransfer();
        d.items.add(new File(['city,sales\\nLima,7\\n"Oslo, N",5\\n'], 'cities.csv', {type: 'text/csv'})); return d; }""")
    window.page.dispatch_event(".cells", "drop", {"dataTransfer": data})
    expect(window.page.locator(".file-name")).to_contain_text("cities.csv")
    window.page.get_by_role("button", name="Preview cities.csv").click()
    expect(window.page.locator(".preview-dialog td").nth(2)).to_have_text("Oslo, N")
    window.page.keyboard.press("Escape")
    with window.page.expect_download() as download:
        window.page.get_by_role("button", name="Download cities.csv").click()
    assert pathlib.Path(download.value.path()).read_text() == (tmp_path / "cities.csv").read_text()
    expect(window.run("len(open('cities.csv').read())").locator(".text.result")).to_have_text("30")
    window.page.get_by_role("button", name="Delete cities.csv").click()
    window.page.get_by_role("button", name="Delete", exact=True).click()
    expect(window.page.locator(".side-body .empty")).to_be_visible()


def test_a_notebook_is_saved_and_opened_again(window, tmp_path):
    window.run("21 * 2")
    for name, extension in (("Save as .ipynb", "ipynb"), ("Save as .py", "py"), ("Save as HTML report", "html")):
        window.page.get_by_role("button", name="Notebook").click()
        with window.page.expect_download() as download:
            window.page.get_by_role("button", name=name).click()
        download.value.save_as(tmp_path / f"x.{extension}")
    book = json.loads((tmp_path / "x.ipynb").read_text())
    assert book["nbformat"] == 4 and book["cells"][0]["outputs"][0]["data"]["text/plain"] == ["42"]
    report = (tmp_path / "x.html").read_text()
    assert "21 * 2" in report and "<script" not in report and "default-src 'none'" in report
    for extension in ("ipynb", "py"):
        window.page.get_by_role("button", name="Notebook").click()
        with window.page.expect_file_chooser() as chooser:
            window.page.get_by_role("button", name="Open .ipynb or .py").click()
        chooser.value.set_files(tmp_path / f"x.{extension}")
        expect(window.cell(0).locator(".cm-content")).to_have_text("21 * 2")


def test_a_link_to_share_shows_the_runs_without_script_and_without_a_key(server, window):
    window.run("print('shared <b>text</b>')\n6 * 7")
    window.page.get_by_role("button", name="Notebook").click()
    window.page.get_by_role("button", name="Copy a link to share").click()
    expect(window.page.get_by_role("status")).to_contain_text("/share/")
    link = window.page.get_by_role("status").inner_text().rpartition(" ")[2]
    answer = server.fetch(link)
    assert answer.status == 200 and b"<script" not in answer.data
    assert b"shared &lt;b&gt;text" in answer.data and b"42" in answer.data


def test_everything_works_with_the_keyboard_alone(window):
    keys = window.page.keyboard
    expect(window.cell(0).locator(".cm-content")).to_be_visible()
    window.cell(0).locator(".cm-content").focus()
    keys.insert_text("y = 5")
    keys.press("Escape")
    expect(window.cell(0)).to_be_focused()
    keys.press("Shift+Enter")
    expect(window.cell(1).locator(".cm-content")).to_be_focused()
    keys.insert_text("y * 5")
    keys.press("Control+Enter")
    expect(window.cell(1).locator(".text.result")).to_have_text("25")
    while window.cell(1).locator(".cm-focused").count():
        keys.press("Escape")  # the first may close a list of completions instead
    expect(window.cell(1)).to_be_focused()
    keys.press("b")
    expect(window.page.locator(".cell")).to_have_count(3)
    keys.press("d")
    keys.press("d")
    expect(window.page.locator(".cell")).to_have_count(2)
    expect(window.cell(1)).to_be_focused()
    keys.press("?")
    expect(window.page.get_by_role("dialog", name="Keyboard")).to_be_visible()


def test_completion_and_signatures_come_from_the_live_session(window):
    window.run("def greet(name, loud=False):\n    'Says hello.'\n\nanswer_to_all = 42")
    window.write("answer_")
    window.page.keyboard.press("Tab")
    expect(window.page.locator(".cm-tooltip-autocomplete")).to_contain_text("answer_to_all")
    window.page.keyboard.press("Escape")
    window.write("greet")
    window.cell(1).locator(".cm-line").first.hover(position={"x": 20, "y": 8})
    expect(window.page.locator(".hover-card")).to_contain_text("(name, loud=False)")
    expect(window.page.locator(".hover-card")).to_contain_text("Says hello.")


def test_what_was_typed_outlives_a_reload_and_an_ended_session(server, window):
    window.run("z = 9")
    window.write("z + 1 # typed")
    session = window.page.evaluate("decodeURIComponent(location.hash.split('/')[2])")
    expect(window.page.locator(".state.good")).to_be_visible()
    window.page.reload()
    expect(window.cell(1).locator(".cm-content")).to_have_text("z + 1 # typed")
    assert server.ask("DELETE", f"/sessions/{session}").status == 200
    window.cell(1).locator(".cm-content").click()
    window.page.keyboard.press("Shift+Enter")
    window.ended(1, "error")
    expect(window.cell(1).locator(".error-text")).to_contain_text("NameError")
    expect(window.cell(1).locator(".cm-content")).to_have_text("z + 1 # typed")


# ---- time travel ---------------------------------------------------------------------------------------------------


def test_a_session_goes_back_forks_compares_and_races(window):
    page = window.page
    window.run("v = 1")
    window.run("v = 2")
    page.get_by_role("link", name="Time travel").click()
    expect(page.locator(".tree-row")).to_have_count(3)
    page.get_by_role("button", name="Fork now").click()
    expect(page.locator(".tree-row")).to_have_count(4)
    page.locator(".tree-row").nth(1).get_by_role("button", name="Go back here").click()
    page.get_by_role("button", name="Go back", exact=True).click()
    expect(page.locator(".tree-row.here")).to_contain_text("1 run")
    for row in page.locator(".tree-row", has_text="now,").all():
        row.get_by_label("Compare").check()
    page.get_by_role("button", name="Compare the two").click()
    expect(page.locator(".badge.warn + code")).to_have_text("v")
    page.get_by_label("Try 1").fill("v += 10; v")
    page.get_by_label("Try 2").fill("v += 100; v")
    page.get_by_role("button", name="Run them side by side").click()
    expect(page.locator(".lane-card .text")).to_have_text(["11", "101"])
    page.get_by_role("button", name="Keep this one").nth(1).click()
    expect(page.locator(".console")).to_be_visible()
    expect(window.run("v").locator(".text.result")).to_have_text("101")


# ---- the model's view, operations, the door ------------------------------------------------------------------------


def test_a_run_is_shown_as_the_model_reads_it_and_every_tool_has_a_form(window):
    page = window.page
    page.get_by_role("link", name="Model's view").click()
    page.get_by_label("Code for the tool").fill("print('seen by a model')")
    page.get_by_role("button", name="Call execute_python").click()
    expect(page.get_by_label("Text that the model reads")).to_contain_text("seen by a model")
    expect(page.locator(".token-line")).to_contain_text("tokens")
    tools = page.get_by_label("Tool", exact=True)
    expect(tools.locator("option").nth(11)).to_be_attached()
    tools.select_option("validate_code")
    page.get_by_label("code (required)").fill("1 +")
    page.get_by_role("button", name="Call validate_code").click()
    expect(page.get_by_label("Text that the model reads").last).to_contain_text("line 1")
    page.get_by_text("Cursor", exact=True).click()
    assert page.get_by_role("link", name="Add to Cursor").get_attribute("href").startswith("cursor://")


def test_operations_show_sessions_and_close_one(server, window):
    server.run("1", session="watched")
    window.page.get_by_role("link", name="Operations").click()
    row = window.page.locator("tr", has_text="watched").first
    expect(row).to_be_visible()
    expect(window.page.locator(".layers li", has_text="user_ns")).to_contain_text("live")
    row.get_by_role("button", name="Close session").click()
    window.page.get_by_role("button", name="Close it").click()
    expect(window.page.locator("tr", has_text="watched")).to_have_count(0)
    assert "watched" not in server.get("/sessions").json["sessions"]


def test_operations_show_denials_stop_a_run_and_test_the_walls(server, window):
    page = window.page
    server.run("import socket; socket.create_connection(('denied.example', 80))")
    with server.streaming("print('on', flush=True)\nwhile True: pass", timeout=60) as response:
        response.readline()
        page.get_by_role("link", name="Operations").click()
        expect(page.get_by_role("group", name="Denials")).to_contain_text("denied.example:80")
        with page.expect_response(lambda answer: "/api/v1/runs/" in answer.url) as stopped:
            page.get_by_role("button", name="Stop run").press("Enter")
        assert stopped.value.status == 200, stopped.value.text()
        assert b"cancelled" in response.read()
    page.get_by_role("button", name="Run the self-test").click()
    expect(page.get_by_text("attempts to break out were held")).to_be_visible()
    expect(page.locator(".layers li", has_text="make a user namespace")).to_contain_text("held")


def test_a_key_is_asked_for_kept_in_memory_only_and_forgotten(shared_cli, browser, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("ada:ada-ada-ada\nbob:bob-bob-bob\n")
    keys.chmod(0o600)
    server = rest_client.serve(shared_cli, "--api-key-file", keys, key="bob-bob-bob", cwd=tmp_path)
    try:
        server.run("1", session="bobs")
        with browser.open(server.port) as window:
            page = window.page
            page.get_by_label("Key").fill("wrong-wrong")
            page.get_by_role("button", name="Come in").click()
            expect(page.get_by_role("alert")).to_contain_text("does not know this key")
            assert window.axe() == []
            page.get_by_label("Key").fill("ada-ada-ada")
            page.get_by_role("button", name="Come in").click()
            expect(window.run("6 * 7").locator(".text.result")).to_have_text("42")
            page.get_by_role("link", name="Operations").click()
            expect(page.get_by_role("heading", name="Sessions")).to_be_visible()
            assert "bobs" not in page.content()
            stored = page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie, location.href])")
            assert "ada-ada" not in stored
            with page.expect_download() as download:          # a link would carry no key
                page.get_by_role("link", name="REST API").click()
            saved = pathlib.Path(download.value.path()).read_text()
            assert 'id="execute"' in saved and "Bearer $KEY" in saved and "ada-ada" not in saved
            page.get_by_role("button", name="Sign out").click()
            expect(page.get_by_label("Key")).to_be_visible()
            page.reload()
            expect(page.get_by_label("Key")).to_be_visible()
            assert window.all_faults() == []
    finally:
        server.process.terminate()
        server.process.wait()


def test_a_server_that_goes_away_and_comes_back_is_found_again(shared_cli, browser, tmp_path):
    server = rest_client.serve(shared_cli)
    with browser.open(server.port) as window:
        window.run("1 + 1")
        server.process.terminate()
        server.process.wait()
        window.write("2 + 2")
        window.page.keyboard.press("Shift+Enter")
        expect(window.page.locator(".banner")).to_contain_text("does not answer")
        again = shared_cli.start("serve", "--port", server.port, "--state", shared_cli.folder / "state")
        expect(window.page.locator(".banner")).to_have_count(0)
        expect(window.run("2 + 2", number=1).locator(".text.result")).to_have_text("4")
        again.terminate()
        again.wait()


# ---- the build -----------------------------------------------------------------------------------------------------


def test_the_types_of_the_sources_are_right():
    tsc = next(pathlib.Path("build/web/node_modules/@typescript").glob("*/lib/tsc"))
    done = subprocess.run([tsc, "-p", "web"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("size, dark", [(DESKTOP, False), (PHONE, True)], ids=["desktop-light", "phone-dark"])
def test_axe_finds_nothing_on_any_page(server, browser, size, dark):
    with browser.open(server.port, size=size, dark=dark) as window:
        page = window.page
        expect(window.cell(0).locator(".cm-content")).to_be_visible()
        assert window.axe() == []
        window.run("x = 1; print('some output'); open('a.txt', 'w')")
        window.run("import socket; socket.create_connection(('a.example', 80))", "error")
        for panel in ("Variables", "Files", "Packages"):
            page.get_by_role("tab", name=panel).click()
            if page.get_by_role("tab", name=panel).get_attribute("aria-selected") == "false":
                page.get_by_role("tab", name=panel).click()
            assert window.axe() == [], panel
        for place, there in (("time", ".tree-row"), ("model", "option >> nth=5"), ("operations", ".layers li")):
            page.evaluate("place => { location.hash = '#/' + place }", place)
            expect(page.locator(there).first).to_be_attached()
            assert window.axe() == [], place
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), place
        assert window.all_faults() == []


@pytest.mark.parametrize("size, dark", [(DESKTOP, False), (PHONE, True)], ids=["desktop-light", "phone-dark"])
def test_the_page_of_the_api_can_be_read_and_linked_to(server, browser, size, dark):
    with browser.open(server.port, size=size, dark=dark) as window:
        page = window.page
        if size == DESKTOP:
            page.get_by_role("link", name="REST API").click()
        else:
            page.goto(f"http://127.0.0.1:{server.port}/docs")
        expect(page.get_by_role("heading", name="The REST API of Constrictor")).to_be_visible()
        assert window.axe() == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == ("rgb(23, 25, 24)" if dark else "rgb(255, 255, 255)")
        page.get_by_role("link", name="POST /api/v1/batch").first.click()
        expect(page.locator("#batch h2")).to_be_in_viewport()
