// SPDX-License-Identifier: Apache-2.0
//
// Unit tests of http/mime: types by names and bytes.

#include "unit.h"

#include <string.h>

#include "files/store.h"

static void types_come_from_names_and_bytes(void **state)
{
    (void)state;
#define CASE(path, bytes, type)                                                                    \
    {                                                                                              \
        path, bytes, sizeof(bytes) - 1, type                                                       \
    }
    static const struct {
        const char *path, *bytes;
        size_t length;
        const char *type;
    } cases[] = {
        CASE("a.png", "\x89PNG\r\n\x1a\n", "image/png"),
        CASE("a.PNG", "", "image/png"),
        CASE("a.png", "\xff\xd8\xff\xe0",
             "image/jpeg"), // a lie that would break the program that shows it
        CASE("plot", "\x89PNG\r\n\x1a\n....", "image/png"),
        CASE("x.jpeg", "\xff\xd8\xff", "image/jpeg"),
        CASE("x.gif", "GIF89a", "image/gif"),
        CASE("x", "RIFF1234WEBPVP8 ", "image/webp"),
        CASE("x", "RIFF1234WAVEfmt ", "audio/wav"),
        CASE("x", "12345678WEBP", "text/plain"),
        CASE("x.svg", "<svg/>", "image/svg+xml"),
        CASE("x.pdf", "%PDF-1.7", "application/pdf"),
        CASE("x", "%PDF-1.7", "application/pdf"),
        CASE("x.csv", "a,b", "text/csv"),
        CASE("x.tsv", "a\tb", "text/tab-separated-values"),
        CASE("x.json", "{}", "application/json"),
        CASE("x.xlsx", "PK\x03\x04",
             "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"),
        CASE("x.docx", "PK\x03\x04",
             "application/vnd.openxmlformats-officedocument.wordprocessingml.document"),
        CASE("x.parquet", "PAR1", "application/vnd.apache.parquet"),
        CASE("x.what", "PK\x03\x04", "application/zip"),
        CASE("x.html", "<script>", "text/html"),
        CASE("x.txt", "<script>", "text/plain"),
        CASE("x.md", "#", "text/markdown"),
        CASE("x.py", "1", "text/x-python"),
        CASE("x.ipynb", "{}", "application/x-ipynb+json"),
        CASE("x.mp3", "ID3", "audio/mpeg"),
        CASE("x.mp4", "....ftypisom", "video/mp4"),
        CASE("x", "....ftypM4A ", "audio/mp4"),
        CASE("x", "\xff\xfb\x90\x64", "audio/mpeg"),
        CASE("x.sqlite", "SQLite format 3\0", "application/vnd.sqlite3"),
        CASE("x", "SQLite format 3\0", "application/vnd.sqlite3"),
        CASE("x.npy", "\x93NUMPY", "application/x-npy"),
        CASE("Makefile", "all:\n\tcc", "text/plain"),
        CASE("x", "gr\xc3\xbc\xc3\x9f", "text/plain"),
        CASE("x", "cut \xc3", "text/plain"),
        CASE("x", "a\0b", "application/octet-stream"),
        CASE("x", "\xff\xfe\xfd\xfc\xfb", "application/octet-stream"),
        CASE("x", "", "application/octet-stream"),
        CASE("dir.png/x", "", "application/octet-stream"),
        CASE(".png", "", "application/octet-stream"),
        CASE("x.", "", "application/octet-stream"),
        CASE("", "", "application/octet-stream"),
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        const char *type = mime_type(cases[i].path, cases[i].bytes, cases[i].length);
        if (strcmp(type, cases[i].type) != 0)
            fail_msg("%s: %s, not %s", cases[i].path, type, cases[i].type);
        assert_true(strlen(type) <= MIME_TYPE_MAX);
    }
}

static void binary_types_are_known(void **state)
{
    (void)state;
    static const char *const binary[] = {
        "image/png",  "image/gif",       "audio/wav",       "video/mp4",
        "font/woff2", "application/pdf", "application/zip", "application/octet-stream"};
    static const char *const text[] = {"text/html",
                                       "image/svg+xml",
                                       "application/json",
                                       "application/geo+json",
                                       "application/vnd.plotly.v1+json",
                                       "application/javascript",
                                       "application/x-tex",
                                       "application/sql",
                                       "application/x-unheard-of",
                                       "application/xml",
                                       "application/pdf2",
                                       "audio",
                                       ""};
    for (size_t i = 0; i < ARRAY_LEN(binary); i++)
        assert_true(mime_is_binary(binary[i]));
    for (size_t i = 0; i < ARRAY_LEN(text); i++)
        assert_false(mime_is_binary(text[i]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(binary_types_are_known),
        cmocka_unit_test(types_come_from_names_and_bytes),
    };
    return cmocka_run_group_tests_name("mime", tests, NULL, NULL);
}
