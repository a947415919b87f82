# SPDX-License-Identifier: Apache-2.0
"""Tests of src/python/install/given_lock.py and file_hosts.py: locks that a request brings, and hosts that an index names."""

import sys
import types
import unittest

from python_side import SIDE

sys.path.insert(0, SIDE)
import failure              # noqa: E402
import file_hosts           # noqa: E402
import given_lock           # noqa: E402
del sys.path[0]

A, B = "a" * 64, "b" * 64


class Locks(unittest.TestCase):
    def refused(self, text, word):
        with self.assertRaises(failure.Failure) as caught:
            given_lock.read(text)
        self.assertIn(word, caught.exception.message)
        self.assertEqual(caught.exception.code, "bad_requirement")

    def test_requirements(self):
        wanted, hashes = given_lock.read(f"# made by hand\nOne==1.0 \\\n    --hash=sha256:{A} \\\n    --hash=sha256:{B}\n\n"
                                     f"two[x]==2 ; python_version > '3' --hash=sha256:{B}  # why\n")
        self.assertEqual([str(item) for item in wanted], ["One==1.0", "two[x]==2 ; python_version > '3'"])
        self.assertEqual(hashes, {"one": {A, B}, "two": {B}})

    def test_toml(self):
        text = (f'lock-version = "1.0"\n[[packages]]\nname = "One"\nversion = "1.0"\n'
                f'wheels = [{{name = "x", hashes = {{sha256 = "{A}"}}}}, {{name = "y", hashes = {{sha256 = "{B}"}}}}]\n')
        wanted, hashes = given_lock.read(text)
        self.assertEqual((str(wanted[0]), hashes), ("One==1.0", {"one": {A, B}}))

    def test_what_is_left_open_is_refused(self):
        good = f"--hash=sha256:{A}"
        for text, word in {"one==1": "line 1", f"\none {good}": "line 2", f"one>=1 {good}": "one version",
                           f"one==1.* {good}": "one version", f"one==1 --hash=md5:{A}": "no sha256 hash", f"-e . {good}": "option",
                           f"--hash=sha256:{A}": "", "": "no package", f"one==1,==1 {good}": "one version",
                           "[[packages]]\nname = 3\n": "", "lock-version = 1\n": "no list", "[[packages": "TOML",
                           '[[packages]]\nname = "one"\nversion = "1"\n': "no file"}.items():
            with self.subTest(text):
                self.refused(text, word)
        self.refused(f"one==1 {good}\n" * 101, "at most")
        self.refused(None, "not a string")

    def test_what_was_found_is_compared(self):
        def item(sha256):
            return types.SimpleNamespace(key="one", version="1", sha256=sha256)
        given_lock.check([item(A)], {"one": {A}})
        for found, hashes, code in (item(B), {"one": {A}}, "hash_mismatch"), (item(None), {"one": {A}}, "hash_mismatch"), \
                                   (item(A), {"two": {A}}, "conflict"):
            with self.assertRaises(failure.Failure) as caught:
                given_lock.check([found], hashes)
            self.assertEqual(caught.exception.code, code)


class Hosts(unittest.TestCase):
    def test_only_names_on_https(self):
        for url, host in {"https://Files.example.org/x.whl": "files.example.org",
                          "https://files.example.org:443/x": "files.example.org", "http://files.example.org/x": None,
                          "https://files.example.org:8443/x": None, "https://192.0.2.1/x": None, "https://[2001:db8::1]/": None,
                          "https://localhost/x": None, "https://-a.example.org/": None, "https://a_b.example.org/": None,
                          "https://" + "a" * 70 + ".example.org/": None, "https://x:y/": None, "": None}.items():
            self.assertEqual(file_hosts.host_of(url), host, url)


if __name__ == "__main__":
    unittest.main()
