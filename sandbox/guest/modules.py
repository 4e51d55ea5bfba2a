"""The standard-library modules that a policy may import.

The runner loads them once, before anything is locked; a child can open no files, so a module that is neither here nor
loaded by one of these is not found. Left out: what asks the machine for entropy, files, processes or the network, since
there is none of it, and what loads `threading`, as `logging` does: its hooks alone would make every fork twice as long.
"""

PRELOADED = (
    "__future__",
    "abc",
    "array",
    "ast",
    "base64",
    "binascii",
    "bisect",
    "calendar",
    "cmath",
    "collections",
    "collections.abc",
    "contextlib",
    "copy",
    "csv",
    "dataclasses",
    "datetime",
    "decimal",
    "difflib",
    "enum",
    "fractions",
    "functools",
    "graphlib",
    "hashlib",
    "heapq",
    "inspect",
    "io",
    "itertools",
    "json",
    "keyword",
    "math",
    "numbers",
    "operator",
    "pprint",
    "random",
    "re",
    "reprlib",
    "statistics",
    "string",
    "struct",
    "sys",
    "textwrap",
    "time",
    "traceback",
    "types",
    "typing",
    "unicodedata",
    "warnings",
    "weakref",
    "zlib",
)

# Loaded by functions of the above when first called: too late in a child.
LOADED_LATER = ("_strptime", "encodings.ascii", "encodings.latin_1", "encodings.utf_16", "encodings.utf_32", "stringprep")
