// SPDX-License-Identifier: Apache-2.0
//
// terminal: see terminal.h.
//
// SECURITY: an escape sequence holds only our digits, base64 that display.c has verified, or the
// output of libsixel.  No name, title or other text of the code gets into it, so code cannot end
// the sequence and begin its own.

#include "cli/terminal.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "json/encode.h"

#ifdef CONSTRICTOR_SIXEL
#include <png.h>
#include <sixel.h>
#endif

enum {
    KITTY_CHUNK = 4096,         // characters of base64 in one sequence, a limit of the protocol
    SIXEL_PIXELS_MAX = 8 << 20, // 24 MiB as RGB: a small file may claim to be a large picture
    SIXEL_COLOURS = 256,
};

// ---- which terminal -----------------------------------------------------------------------------

enum match { IS, BEGINS, CONTAINS, SET };

// The first row that fits decides.  Sixel is used only for terminals known to support it: others
// show the sequence as a page of garbage.
static const struct {
    const char *variable;
    enum match match;
    const char *value;
    enum terminal_images images;
} known[] = {
    // Multiplexers inherit the variables of the terminal around them, but drop or garble pictures.
    {"TERM", BEGINS, "screen", IMAGES_NONE},
    {"TERM", BEGINS, "tmux", IMAGES_NONE},
    {"TERM", IS, "dumb", IMAGES_NONE},
    {"TERM", IS, "linux", IMAGES_NONE},
    {"TERM", CONTAINS, "kitty", IMAGES_KITTY},
    {"TERM", CONTAINS, "ghostty", IMAGES_KITTY},
    {"TERM", BEGINS, "foot", IMAGES_SIXEL},
    {"TERM", BEGINS, "mlterm", IMAGES_SIXEL},
    {"TERM", CONTAINS, "sixel", IMAGES_SIXEL},
    {"TERM_PROGRAM", IS, "iTerm.app", IMAGES_ITERM},
    // These know sixel too, but then with 256 colours.
    {"TERM_PROGRAM", IS, "WezTerm", IMAGES_ITERM},
    {"TERM_PROGRAM", IS, "mintty", IMAGES_ITERM},
    {"TERM_PROGRAM", IS, "ghostty", IMAGES_KITTY},
    {"LC_TERMINAL", IS, "iTerm2", IMAGES_ITERM}, // the one that ssh passes on
    {"KITTY_WINDOW_ID", SET, "", IMAGES_KITTY},
};

static bool fits(const char *value, enum match match, const char *wanted)
{
    if (!value || !value[0])
        return false;
    switch (match) {
    case IS: return strcasecmp(value, wanted) == 0;
    case BEGINS: return strncasecmp(value, wanted, strlen(wanted)) == 0;
    case CONTAINS: return strcasestr(value, wanted) != NULL;
    case SET: return true;
    }
    return false;
}

void terminal_look(int fd, enum terminal_images wish, struct terminal *ret)
{
    struct winsize size;
    *ret = (struct terminal){.images = IMAGES_NONE};
    if (!isatty(fd))
        return;
    ret->images = wish;
    for (size_t i = 0; ret->images == IMAGES_AUTO && i < ARRAY_LEN(known); i++)
        if (fits(getenv(known[i].variable), known[i].match, known[i].value))
            ret->images = known[i].images;
    if (ret->images == IMAGES_AUTO)
        ret->images = IMAGES_NONE;
    if (ioctl(fd, TIOCGWINSZ, &size) == 0) {
        ret->columns = size.ws_col;
        ret->width = size.ws_xpixel;
    }
}

// ---- the protocols ------------------------------------------------------------------------------

static bool show_kitty(const struct terminal *t, const struct picture *p, FILE *out)
{
    size_t length = strlen(p->base64);
    char fit[32] = "";
    if (strcmp(p->mime_type, "image/png") != 0)
        return false; // the protocol knows no JPEG
    if (t->width && t->columns && p->width > t->width)
        snprintf(fit, sizeof fit, ",c=%u", t->columns);
    // a=T: take and show; f=100: PNG; q=2: send no answer.
    for (size_t at = 0; at < length; at += KITTY_CHUNK) {
        size_t n = length - at < KITTY_CHUNK ? length - at : KITTY_CHUNK;
        fputs("\033_G", out);
        if (at == 0)
            fprintf(out, "a=T,f=100%s,", fit);
        fprintf(out, "q=2,m=%d;", at + n < length);
        (void)fwrite(p->base64 + at, 1, n, out);
        fputs("\033\\", out);
    }
    (void)fputc('\n', out);
    return true;
}

// The terminal itself shrinks what is too wide for the window.
static bool show_iterm(const struct terminal *t, const struct picture *p, FILE *out)
{
    (void)t;
    fprintf(out, "\033]1337;File=inline=1;size=%zu:", p->size);
    fputs(p->base64, out);
    fputs("\a\n", out);
    return true;
}

#ifdef CONSTRICTOR_SIXEL

struct pixels {
    unsigned char *rgb;
    unsigned width, height;
};

static bool decode_png(const struct picture *p, struct pixels *ret)
{
    static const png_color white = {255, 255, 255}; // for what is transparent
    size_t length = 0;
    _cleanup_free_ unsigned char *data = decode_base64(p->base64, strlen(p->base64), &length);
    png_image image = {.version = PNG_IMAGE_VERSION};
    if (!data || !png_image_begin_read_from_memory(&image, data, length))
        return false;
    image.format = PNG_FORMAT_RGB;
    bool ok = (uint64_t)image.width * image.height <= SIXEL_PIXELS_MAX;
    _cleanup_free_ unsigned char *rgb = ok ? malloc(PNG_IMAGE_SIZE(image)) : NULL;
    ok = rgb && png_image_finish_read(&image, &white, rgb, 0, NULL);
    png_image_free(&image);
    if (ok)
        *ret = (struct pixels){TAKE_PTR(rgb), image.width, image.height};
    return ok;
}

// Shrinks a picture that is wider than the window, which would cut it off.
static bool fit_width(const struct terminal *t, struct pixels *px)
{
    if (!t->width || px->width <= t->width)
        return true;
    unsigned height = (unsigned)((uint64_t)px->height * t->width / px->width);
    sixel_allocator_t *allocator = NULL;
    if (height == 0 || SIXEL_FAILED(sixel_allocator_new(&allocator, NULL, NULL, NULL, NULL)))
        return false;
    _cleanup_free_ unsigned char *rgb = malloc((size_t)t->width * height * 3);
    bool ok = rgb && SIXEL_SUCCEEDED(sixel_helper_scale_image(
                         rgb, px->rgb, (int)px->width, (int)px->height, SIXEL_PIXELFORMAT_RGB888,
                         (int)t->width, (int)height, SIXEL_RES_BILINEAR, allocator));
    sixel_allocator_unref(allocator);
    if (!ok)
        return false;
    free(px->rgb);
    *px = (struct pixels){TAKE_PTR(rgb), t->width, height};
    return true;
}

static int write_sixel(char *data, int size, void *out)
{
    return (int)fwrite(data, 1, (size_t)size, out);
}

static bool encode_sixel(const struct pixels *px, FILE *out)
{
    sixel_output_t *output = NULL;
    sixel_dither_t *dither = NULL;
    int w = (int)px->width, h = (int)px->height;
    bool ok = SIXEL_SUCCEEDED(sixel_output_new(&output, write_sixel, out, NULL)) &&
              SIXEL_SUCCEEDED(sixel_dither_new(&dither, SIXEL_COLOURS, NULL)) &&
              SIXEL_SUCCEEDED(sixel_dither_initialize(dither, px->rgb, w, h,
                                                      SIXEL_PIXELFORMAT_RGB888, SIXEL_LARGE_AUTO,
                                                      SIXEL_REP_AUTO, SIXEL_QUALITY_HIGH)) &&
              SIXEL_SUCCEEDED(sixel_encode(px->rgb, w, h, 0, dither, output));
    if (dither)
        sixel_dither_unref(dither);
    if (output)
        sixel_output_unref(output);
    return ok;
}

// Into memory first: a failure must not leave the terminal in the middle of a sequence.
static bool show_sixel(const struct terminal *t, const struct picture *p, FILE *out)
{
    struct pixels px = {0};
    char *text = NULL;
    size_t size = 0;
    if (strcmp(p->mime_type, "image/png") != 0 || !decode_png(p, &px))
        return false;
    FILE *memory = open_memstream(&text, &size);
    bool ok = memory && fit_width(t, &px) && encode_sixel(&px, memory);
    if (memory)
        ok &= fclose(memory) == 0;
    if (ok) {
        (void)fwrite(text, 1, size, out);
        (void)fputc('\n', out);
    }
    free(text);
    free(px.rgb);
    return ok;
}

bool terminal_has_sixel(void)
{
    return true;
}

#else

static bool show_sixel(const struct terminal *t, const struct picture *p, FILE *out)
{
    (void)t;
    (void)p;
    (void)out;
    return false;
}

bool terminal_has_sixel(void)
{
    return false;
}

#endif

bool terminal_show(const struct terminal *t, const struct picture *p, FILE *out)
{
    switch (t->images) {
    case IMAGES_KITTY: return show_kitty(t, p, out);
    case IMAGES_ITERM: return show_iterm(t, p, out);
    case IMAGES_SIXEL: return show_sixel(t, p, out);
    case IMAGES_AUTO:
    case IMAGES_NONE: return false;
    }
    return false;
}
