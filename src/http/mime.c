// SPDX-License-Identifier: Apache-2.0
//
// mime: see mime.h.

#include "http/mime.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "base/utf8.h"

static const struct {
    const char *extension, *type;
} extensions[] = {
    {"7z", "application/x-7z-compressed"},
    {"aac", "audio/aac"},
    {"arrow", "application/vnd.apache.arrow.file"},
    {"avif", "image/avif"},
    {"avi", "video/x-msvideo"},
    {"bin", "application/octet-stream"},
    {"bmp", "image/bmp"},
    {"bz2", "application/x-bzip2"},
    {"c", "text/x-c"},
    {"cfg", "text/plain"},
    {"cpp", "text/x-c"},
    {"css", "text/css"},
    {"csv", "text/csv"},
    {"db", "application/vnd.sqlite3"},
    {"doc", "application/msword"},
    {"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
    {"eps", "application/postscript"},
    {"epub", "application/epub+zip"},
    {"feather", "application/vnd.apache.arrow.file"},
    {"flac", "audio/flac"},
    {"geojson", "application/geo+json"},
    {"gif", "image/gif"},
    {"gz", "application/gzip"},
    {"h", "text/x-c"},
    {"h5", "application/x-hdf5"},
    {"hdf5", "application/x-hdf5"},
    {"htm", "text/html"},
    {"html", "text/html"},
    {"ico", "image/vnd.microsoft.icon"},
    {"ics", "text/calendar"},
    {"ini", "text/plain"},
    {"ipynb", "application/x-ipynb+json"},
    {"jpeg", "image/jpeg"},
    {"jpg", "image/jpeg"},
    {"js", "text/javascript"},
    {"json", "application/json"},
    {"jsonl", "application/x-ndjson"},
    {"log", "text/plain"},
    {"m4a", "audio/mp4"},
    {"md", "text/markdown"},
    {"mjs", "text/javascript"},
    {"mkv", "video/x-matroska"},
    {"mov", "video/quicktime"},
    {"mp3", "audio/mpeg"},
    {"mp4", "video/mp4"},
    {"ndjson", "application/x-ndjson"},
    {"npy", "application/x-npy"},
    {"npz", "application/x-npz"},
    {"odp", "application/vnd.oasis.opendocument.presentation"},
    {"ods", "application/vnd.oasis.opendocument.spreadsheet"},
    {"odt", "application/vnd.oasis.opendocument.text"},
    {"ogg", "audio/ogg"},
    {"parquet", "application/vnd.apache.parquet"},
    {"pdf", "application/pdf"},
    {"pickle", "application/x-python-pickle"},
    {"pkl", "application/x-python-pickle"},
    {"png", "image/png"},
    {"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
    {"ps", "application/postscript"},
    {"py", "text/x-python"},
    {"rst", "text/x-rst"},
    {"rtf", "application/rtf"},
    {"sh", "application/x-sh"},
    {"sql", "application/sql"},
    {"sqlite", "application/vnd.sqlite3"},
    {"sqlite3", "application/vnd.sqlite3"},
    {"svg", "image/svg+xml"},
    {"tar", "application/x-tar"},
    {"tex", "application/x-tex"},
    {"tgz", "application/gzip"},
    {"tif", "image/tiff"},
    {"tiff", "image/tiff"},
    {"toml", "application/toml"},
    {"tsv", "text/tab-separated-values"},
    {"txt", "text/plain"},
    {"wasm", "application/wasm"},
    {"wav", "audio/wav"},
    {"webm", "video/webm"},
    {"webp", "image/webp"},
    {"woff2", "font/woff2"},
    {"xhtml", "application/xhtml+xml"},
    {"xls", "application/vnd.ms-excel"},
    {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    {"xml", "application/xml"},
    {"xz", "application/x-xz"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
    {"zip", "application/zip"},
    {"zst", "application/zstd"},
};

// Those of the kind "application" that are text, besides the ones that end in +json or +xml.
static const char *const texts[] = {
    "application/json", "application/x-ndjson", "application/postscript", "application/rtf",
    "application/x-sh", "application/sql",      "application/toml",       "application/x-tex",
    "application/xml",  "application/yaml"};

// Bytes at an offset; the first row that matches gives the type.
#define MAGIC(at, bytes, type)                                                                     \
    {                                                                                              \
        at, sizeof(bytes) - 1, bytes, type                                                         \
    }
static const struct {
    size_t at, length;
    const char *bytes, *type;
} magics[] = {
    MAGIC(0, "\x89PNG\r\n\x1a\n", "image/png"),
    MAGIC(0, "\xff\xd8\xff", "image/jpeg"),
    MAGIC(0, "GIF87a", "image/gif"),
    MAGIC(0, "GIF89a", "image/gif"),
    MAGIC(8, "WEBP", "image/webp"), // behind RIFF and a length
    MAGIC(8, "WAVE", "audio/wav"),
    MAGIC(4, "ftypavif", "image/avif"),
    MAGIC(4, "ftypM4A", "audio/mp4"),
    MAGIC(4, "ftyp", "video/mp4"),
    MAGIC(0, "II*\0", "image/tiff"),
    MAGIC(0, "MM\0*", "image/tiff"),
    MAGIC(0, "%PDF-", "application/pdf"),
    MAGIC(0, "PK\x03\x04", "application/zip"),
    MAGIC(0, "PK\x05\x06", "application/zip"), // an empty one
    MAGIC(0, "\x1f\x8b", "application/gzip"),
    MAGIC(0, "BZh", "application/x-bzip2"),
    MAGIC(0, "\3757zXZ\0", "application/x-xz"),
    MAGIC(0, "\x28\xb5\x2f\xfd", "application/zstd"),
    MAGIC(0, "7z\xbc\xaf\x27\x1c", "application/x-7z-compressed"),
    MAGIC(0, "PAR1", "application/vnd.apache.parquet"),
    MAGIC(0, "ARROW1", "application/vnd.apache.arrow.file"),
    MAGIC(0, "\x93NUMPY", "application/x-npy"),
    MAGIC(0, "\x89HDF\r\n\x1a\n", "application/x-hdf5"),
    MAGIC(0, "SQLite format 3\0", "application/vnd.sqlite3"),
    MAGIC(0, "ID3", "audio/mpeg"),
    MAGIC(0, "\xff\xfb", "audio/mpeg"), // a frame of layer III, without tags
    MAGIC(0, "\xff\xf1", "audio/aac"),
    MAGIC(0, "OggS", "audio/ogg"),
    MAGIC(0, "fLaC", "audio/flac"),
    MAGIC(0, "\x1a\x45\xdf\xa3", "video/webm"),
    MAGIC(0, "\0asm", "application/wasm"),
};

static const char *by_extension(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path,
               *dot = strrchr(name, '.');
    if (!dot || dot == name) // ".bashrc" has none
        return NULL;
    for (size_t i = 0; i < ARRAY_LEN(extensions); i++)
        if (strcasecmp(dot + 1, extensions[i].extension) == 0)
            return extensions[i].type;
    return NULL;
}

static const char *by_magic(const char *head, size_t length)
{
    bool riff = length >= 4 && memcmp(head, "RIFF", 4) == 0;
    for (size_t i = 0; i < ARRAY_LEN(magics); i++) {
        bool in_riff = magics[i].at == 8;
        if (in_riff == riff && length >= magics[i].at + magics[i].length &&
            memcmp(head + magics[i].at, magics[i].bytes, magics[i].length) == 0)
            return magics[i].type;
    }
    return NULL;
}

// Is it text without control characters?  It may end within a character.
static bool is_text(const char *head, size_t length)
{
    size_t valid = utf8_valid_length(head, length);
    if (length == 0 || valid + 3 < length)
        return false;
    for (size_t i = 0; i < valid; i++)
        if ((unsigned char)head[i] < ' ' && !memchr("\t\n\r\f\x1b", head[i], 5))
            return false;
    return true;
}

static bool is_picture(const char *type)
{
    return type && strncmp(type, "image/", 6) == 0;
}

const char *mime_type(const char *path, const void *head, size_t length)
{
    const char *named = by_extension(path), *seen = length ? by_magic(head, length) : NULL;
    // The name says more than the bytes (an .xlsx is a zip), except for a picture with the wrong
    // name: a client can only decode it by its true type.
    if (named && !(is_picture(named) && is_picture(seen)))
        return named;
    if (seen)
        return seen;
    return length && is_text(head, length) ? "text/plain" : "application/octet-stream";
}

bool mime_is_binary(const char *type)
{
    static const char *const kinds[] = {"image/", "audio/", "video/", "font/"};
    const char *suffix = strrchr(type, '+');
    if (suffix && (strcmp(suffix, "+json") == 0 || strcmp(suffix, "+xml") == 0))
        return false;
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (strncmp(type, kinds[i], strlen(kinds[i])) == 0)
            return true;
    for (size_t i = 0; i < ARRAY_LEN(texts); i++)
        if (strcmp(type, texts[i]) == 0)
            return false;
    for (size_t i = 0; i < ARRAY_LEN(extensions); i++)
        if (strcmp(type, extensions[i].type) == 0)
            return strncmp(type, "application/", 12) == 0;
    return false;
}
