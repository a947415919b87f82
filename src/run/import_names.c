// SPDX-License-Identifier: Apache-2.0
//
// import_names: see import_names.h.  `is_taken` is false where the index has no project of the
// module's name, or only a stub that names the real one.

#include "run/import_names.h"

#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"

static const struct import_name names[] = {
    {"attr", "attrs", false},
    {"barcode", "python-barcode", true},
    {"bio", "biopython", true},
    {"bs4", "beautifulsoup4", false},
    {"community", "python-louvain", true},
    {"crypto", "pycryptodome", true},
    {"cv2", "opencv-python-headless", false},
    {"dateutil", "python-dateutil", false},
    {"decouple", "python-decouple", true},
    {"dns", "dnspython", false},
    {"docx", "python-docx", true},
    {"dotenv", "python-dotenv", true},
    {"faiss", "faiss-cpu", true},
    {"fitz", "pymupdf", true},
    {"git", "gitpython", false},
    {"googleapiclient", "google-api-python-client", false},
    {"imblearn", "imbalanced-learn", false},
    {"jose", "python-jose", true},
    {"jwt", "pyjwt", true},
    {"magic", "python-magic", false},
    {"memcache", "python-memcached", true},
    {"mpl-toolkits", "matplotlib", false},
    {"multipart", "python-multipart", true},
    {"mysqldb", "mysqlclient", false},
    {"nacl", "pynacl", false},
    {"opencv", "opencv-python-headless", false},
    {"opengl", "pyopengl", false},
    {"openssl", "pyopenssl", false},
    {"pil", "pillow", false},
    {"pkg-resources", "setuptools", false},
    {"pptx", "python-pptx", false},
    {"psycopg2", "psycopg2-binary", false},
    {"pylab", "matplotlib", false},
    {"pywt", "pywavelets", false},
    {"serial", "pyserial", true},
    {"skimage", "scikit-image", false},
    {"sklearn", "scikit-learn", false},
    {"skopt", "scikit-optimize", false},
    {"slugify", "python-slugify", true},
    {"snappy", "python-snappy", true},
    {"stdnum", "python-stdnum", false},
    {"tabula", "tabula-py", true},
    {"telegram", "python-telegram-bot", true},
    {"umap", "umap-learn", false},
    {"usb", "pyusb", true},
    {"websocket", "websocket-client", true},
    {"whois", "python-whois", true},
    {"yaml", "pyyaml", false},
    {"zmq", "pyzmq", false},
};

const struct import_name *import_name_find(const char *module)
{
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(names[i].module, module) == 0)
            return &names[i];
    return NULL;
}
