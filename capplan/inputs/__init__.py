"""What comes from outside, read so that no file can do harm.

::

    limits       how large and how deep a file of each kind may be
    reading      bytes and text, up to a limit
    documents    JSON
    yaml_text    YAML
    tables       CSV
    streams      large files that are never held whole, packed or not
    arrays       the sidecar of a profile
    safetensors  the header of a weight file
    gguf         the same of the other format
    names        names that a file gives to other files

Each refuses with :class:`~capplan.errors.UnreadableFileError`, of which readers make an error of
their own kind. A test of the architecture holds the rest of the code to reading through here.
"""
