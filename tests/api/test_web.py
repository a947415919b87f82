# SPDX-License-Identifier: Apache-2.0
"""The page at /: the console, the files, time travel, the door, in a real browser."""

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


# ---- the build -----------------------------------------------------------------------------------------------------


def test_the_types_of_the_sources_are_right():
    tsc = next(pathlib.Path("build/web/node_modules/@typescript").glob("*/lib/tsc"))
    done = subprocess.run([tsc, "-p", "web"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing_in_the_console(server, browser, size, dark):
    with browser.open(server.port, size=size, dark=dark) as window:
        expect(window.cell(0).locator(".cm-content")).to_be_visible()
        assert window.axe() == []
        window.run("print('some output')\n1 / 0", "error")
        assert window.axe() == []
        assert window.faults == []
